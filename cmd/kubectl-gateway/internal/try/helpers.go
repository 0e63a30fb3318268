package try

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

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
	log, err := os.Create(filepath.Join(s.dir, h.name+".log"))
	if err != nil {
		return fmt.Errorf("failed to make a file: %w", err)
	}
	defer log.Close()                                          //nolint:errcheck // the program has it
	command := exec.CommandContext(ctx, program, arguments...) //nolint:gosec // ours
	command.Stdout, command.Stderr = log, log
	if err := command.Start(); err != nil {
		return fmt.Errorf("failed to start %s: %w", h.name, err)
	}
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	starting, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		if _, err := os.Stat(socket); err == nil {
			return nil
		}
		select {
		case err := <-ended:
			said, _ := os.ReadFile(log.Name())
			return fmt.Errorf("%s ended: %w: %s", h.name, err, said)
		default:
		}
		if pause(starting) != nil {
			return fmt.Errorf("%s does not answer within %s", h.name, startTimeout)
		}
	}
}
