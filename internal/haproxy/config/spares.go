package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// No backend section is added at run time. So the skeleton has some to spare, which take the place of sections that are
// wanted later. The map in SparesFile says which does so for which: its entries are "SECTION SPARE".
//
// Until the next reload, entries are only added. A spare that was left free for another Service might still get a request, by a retry,
// that was meant for the former.

// SparesFile is the name of the map file.
const SparesFile = "spares.map"

// spareSections is how many there are. Each costs some memory, and has its lines in what Prometheus gets.
const spareSections = 32

// spareBody is all there is in one. What a section has beside, but for options of its servers, a spare cannot have.
const spareBody = "    balance random(2)"

func spareName(i int) string { return fmt.Sprintf("spare-%d", i) }

func writeSpares(b *strings.Builder) {
	for i := range spareSections {
		b.WriteString("\n" + backendPrefix + spareName(i) + fromRouted + spareBody + "\n")
	}
}

// canUseSpare says whether a spare does for a section.
func canUseSpare(body string) bool {
	options, ok := strings.CutPrefix(body, fromRouted+spareBody)
	isOptions := strings.HasPrefix(options, "\n"+defaultServer) && strings.Count(options, "\n") == 1
	return ok && (options == "" || isOptions)
}

// assignSpare returns the entries with one for a section, or false if it cannot have a spare. Its servers have to be as they were
// when it had one before.
func assignSpare(entries []MapEntry, name string, desired, running Config) ([]MapEntry, bool) {
	switch {
	case spareOf(entries, name) != "":
		return entries, desired.Settings[name] == running.Settings[name]
	case len(entries) == spareSections:
		return entries, false
	}
	return append(slices.Clip(entries), MapEntry{Key: name, Value: spareName(len(entries))}), true
}

// spareOf returns the spare that takes the place of a section, "" if there is none.
func spareOf(entries []MapEntry, section string) string {
	for _, entry := range entries {
		if entry.Key == section {
			return entry.Value
		}
	}
	return ""
}

// runningSection returns the name of the section that does the work of another.
func (c Config) runningSection(name string) string {
	if spare := spareOf(c.Maps[SparesFile], name); spare != "" {
		return spare
	}
	return name
}

// serversOf returns the servers of a section of the skeleton, and the options that a line has for each.
func (c Config) serversOf(section string) (servers []Server, options string) {
	behind := SectionBehind(c.Maps[SparesFile], section)
	if behind != section {
		options = c.Settings[behind].Options
	}
	servers, _ = c.Servers.Of(behind)
	return servers, options
}

// SectionBehind returns the name of the section whose place a spare takes, by the entries of SparesFile. Any other section is its own.
func SectionBehind(spares []MapEntry, section string) string {
	for _, entry := range spares {
		if entry.Value == section {
			return entry.Key
		}
	}
	return section
}

// useSpares lets spares take the place of sections. What the servers of a section were like that is not wanted now is kept, since
// HAProxy keeps those that are busy.
func (c *Config) useSpares(entries []MapEntry, running Config) {
	if len(entries) == 0 {
		return
	}
	c.Maps = maps.Clone(c.Maps)
	c.Maps[SparesFile] = entries
	kept := map[string]ServerSettings{}
	for _, entry := range entries {
		_, isWanted := c.Servers.Of(entry.Key)
		if settings, ok := running.Settings[entry.Key]; ok && !isWanted {
			kept[entry.Key] = settings
		}
	}
	if len(kept) > 0 {
		maps.Copy(kept, c.Settings)
		c.Settings = kept
	}
}
