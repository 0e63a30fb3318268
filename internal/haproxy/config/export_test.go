package config

// SkeletonOf makes the skeleton of a whole table, without the sections of Service ports.
var SkeletonOf = renderSkeleton
