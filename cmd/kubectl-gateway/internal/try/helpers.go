package try

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"gateway/internal/routing"
)

// helper is a program of proxy pods that the plugin does not have in it. It runs here if it is built.
type helper struct {
	name string
	// lost is what happens to requests without it.
	lost string
}

var (
	loginHelper    = helper{"gateway-login", "requests without a session that rules with an OIDC need are answered with 503"}
	firewallHelper = helper{"gateway-waf", "requests of rules with a WAF are answered with 503, unless it is in shadow"}
)

// addHelpers adds the programs that rules need.
func (o *objects) addHelpers(table routing.Table) {
	var login, firewall bool
	table.Rules(func(_ *routing.Listener, rule *routing.Rule) {
		login = login || rule.OIDC != nil
		firewall = firewall || rule.WAF != nil && !rule.Shadows("WAF")
	})
	if login {
		o.helpers = append(o.helpers, loginHelper)
	}
	if firewall {
		o.helpers = append(o.helpers, firewallHelper)
	}
}

// path returns where the program is: on the PATH, or beside the plugin; "": nowhere.
func (h helper) path() string {
	if found, err := exec.LookPath(h.name); err == nil {
		return found
	}
	self, err := os.Executable()
	if err != nil {
		return ""
	}
	if self, err = filepath.EvalSymlinks(self); err != nil {
		return ""
	}
	beside := filepath.Join(filepath.Dir(self), h.name)
	if _, err := os.Stat(beside); err != nil {
		return ""
	}
	return beside
}

// startHelpers starts the programs that rules need, unless they run, and returns when they answer. Those that are not
// built are named.
func (s *session) startHelpers(ctx context.Context, o *objects) error {
	o.absent = nil
	for _, h := range o.helpers {
		if slices.Contains(s.helpers, h.name) {
			continue
		}
		program := h.path()
		if program == "" {
			o.absent = append(o.absent, fmt.Sprintf("%s is neither on the PATH nor beside the plugin (make build makes it): %s", h.name, h.lost))
			continue
		}
		arguments, socket := []string{"-socket=" + s.paths.WAFSocket, "-rules-dir=" + s.configMaps}, s.paths.WAFSocket
		if h == loginHelper {
			socket = s.paths.LoginSocket
			arguments = []string{"-socket=" + socket, "-secrets-dir=" + s.secrets, "-authorities-dir=" + s.configMaps}
		}
		if err := s.startHelper(ctx, h, program, arguments, socket); err != nil {
			return err
		}
		s.helpers = append(s.helpers, h.name)
	}
	return nil
}

// startHelper starts a program, which runs until ctx ends, and returns when it has its socket.
func (s *session) startHelper(ctx context.Context, h helper, program string, arguments []string, socket string) error {
	said := &helperLog{name: h.name, to: s.log}
	command := exec.CommandContext(ctx, program, append(arguments, "-logtostderr")...) //nolint:gosec // ours
	command.Stdout, command.Stderr, command.SysProcAttr = said, said, processAttributes()
	ended := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // it ends when the thread does that started it
		ended <- command.Run()
	}()
	starting, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		if _, err := os.Stat(socket); err == nil {
			return nil
		}
		select {
		case err := <-ended:
			return fmt.Errorf("%s ended: %w: %s", h.name, err, said.last)
		default:
		}
		if pause(starting) != nil {
			return fmt.Errorf("%s does not answer within %s", h.name, startTimeout)
		}
	}
}

// helperLog prints the warnings and errors of a program between the requests.
type helperLog struct {
	name string
	to   *accessLog
	// last is the last line that was printed, at the end of the program too.
	last string
}

// Write takes what the program says, at once and in whole lines.
func (l *helperLog) Write(content []byte) (int, error) {
	for line := range strings.Lines(string(content)) {
		l.last = strings.TrimSpace(line)
		if _, text, ok := strings.Cut(l.last, "] "); ok && l.last[0] != 'I' {
			l.to.say("%s: %s", l.name, text)
		}
	}
	return len(content), nil
}
