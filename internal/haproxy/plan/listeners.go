package plan

import (
	"maps"

	"gateway/internal/haproxy/ir"
	"gateway/internal/tree"
)

// A connection belongs to the listener that ir.NamesFile names when its handshake ends. But its handshake began by the
// line for its name at that time. Where a name gets stricter demands, its line changes first. The name leads to the
// new identity once all handshakes have ended that began by the old line. Meanwhile, new connections meet the new
// demands, and get what the listener had before.

// held returns the names whose connections must be made by the new demands for a while, before the names lead to the
// new identities. settled reports whether this while is over for those that running holds. conflict reports that a name
// is held, and now is to lead to something else: its connections would be of two kinds.
func held(desired, running ir.Config, settled bool) (names map[string]string, conflict bool) {
	names = map[string]string{}
	for change := range tree.Changes(running.Maps[ir.NamesFile], desired.Maps[ir.NamesFile]) {
		identity, next := demanded(desired, change.Key)
		_, before := demanded(running, change.Key)
		if next == nil || before == nil || next.AreMetBy(*before) {
			continue
		}
		if _, ok := running.Held[change.Key]; !ok || !settled {
			names[change.Key] = identity
		}
	}
	for key, identity := range running.Held {
		if now, _ := demanded(desired, key); now != identity {
			return nil, true
		}
	}
	return names, false
}

// demanded returns the identity that a server name leads to, and its demands. They are "" and nil if the name leads to
// no listener that is served.
func demanded(config ir.Config, key string) (string, *ir.Demands) {
	for _, key := range ir.NameKeys(key) {
		identity, ok := config.Maps[ir.NamesFile].Get(key)
		if demands, isServed := config.Demands[identity]; ok && isServed {
			return identity, &demands
		}
	}
	return "", nil
}

// hold takes edits from the plan: the edits of the names, and edits of hosts and HSTS that would lead their requests
// to another listener.
func (p *Plan) hold(names map[string]string, running ir.Config) {
	if p.After.Held = nil; len(names) == 0 {
		return
	}
	p.After.Held = names
	p.After.Demands = maps.Clone(p.After.Demands)
	maps.Copy(p.After.Demands, running.Demands)
	affected := map[string]bool{}
	for key, identity := range names {
		before, _ := demanded(running, key)
		affected[before], affected[identity] = true, true
		if _, ok := running.Held[key]; !ok {
			p.Switches = true
		}
	}
	p.After.Maps = maps.Clone(p.After.Maps)
	for i := range p.Edits {
		file := &p.Edits[i]
		entries := p.After.Maps[file.File].Edit()
		var kept []Edit
		for _, edit := range file.Edits {
			waits := false
			switch file.File {
			case ir.NamesFile:
				_, waits = names[edit.Key]
			case ir.HostsFile:
				waits = affected[ir.IdentityIn(edit.Old)] || affected[ir.IdentityIn(edit.New)]
			case ir.HSTSFile:
				waits = affected[edit.Key] && edit.New == ""
			}
			switch {
			case !waits:
				kept = append(kept, edit)
			case edit.Old == "":
				entries.Delete(edit.Key)
			default:
				entries.Set(edit.Key, edit.Old)
			}
		}
		file.Edits = kept
		p.After.Maps[file.File] = entries.Map()
	}
}
