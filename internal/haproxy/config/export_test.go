package config

// SkeletonOf makes the skeleton of a whole table, without the sections of Service ports.
func SkeletonOf(in Input) string {
	change := newHostChange(in.Table, nil)
	return renderSkeleton(in, renderSections(in, nil, change).limits)
}
