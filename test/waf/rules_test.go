package waf_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"gateway/test/internal/testenv"
)

// refusing are rules that refuse requests with an argument.
func refusing(argument string) string {
	return fmt.Sprintf(`SecRule ARGS_NAMES "@streq %s" "id:1000,phase:2,deny,msg:'It has %[1]s'"`, argument)
}

// ownRules: rules of a user refuse requests, add to the score, and change live.
func (s *site) ownRules() {
	const harmless, found = "/own?a=1", "/own?b=1"
	if status, _ := s.exchanged(get(harmless)); status != 503 {
		s.t.Errorf("without the ConfigMap, a request got %d, want 503", status)
	}
	s.putRules("shop", "SecRule ARGS \"@inspectFile /etc/passwd\" \"id:1,deny\"")
	s.putRules("others", `SecRule REQUEST_HEADERS:X-Team "!@within red,blue" "id:7,phase:1,block,setvar:tx.inbound_anomaly_score_pl1=+%{tx.critical_anomaly_score}"`)
	s.await("/others", 200)
	for _, test := range []struct {
		name, request string
		status        int
		rules         []int
	}{
		{"only bad rules", get(harmless), 503, nil},
		{"no score", get("/others", "X-Team: red"), 200, nil},
		{"a score below the threshold", get("/others", "X-Team: green"), 200, []int{7}},
		{"a score with another one", get("/others/.git/config", "X-Team: green"), 403, []int{7, 930130}},
		{"another score alone", get("/others/.git/config", "X-Team: red"), 200, []int{930130}},
	} {
		if status, line := s.exchanged(test.request); status != test.status || !slices.Equal(line.WAF.Rules, test.rules) {
			s.t.Errorf("%s: got %d with %+v, want %d with %v", test.name, status, line, test.status, test.rules)
		}
	}
	s.putRules("shop", refusing("b"))
	s.await(found, 403)
	if status, line := s.exchanged(get(found)); status != 403 || line.Filter != "WAF" || !slices.Equal(line.WAF.Rules, []int{1000}) {
		s.t.Errorf("what a rule refuses got %d with %+v", status, line)
	}
	s.liveEdits(harmless, found)
}

// liveEdits: no request fails while rules change, and none passes that both the old and the new ones refuse. Bad rules
// change nothing.
func (s *site) liveEdits(harmless, found string) {
	asking, stop := context.WithCancel(s.t.Context())
	var asked sync.WaitGroup
	for path, want := range map[string]int{harmless: 200, found: 403} {
		asked.Go(func() {
			c := s.connect()
			for asking.Err() == nil {
				if status, err := c.send(get(path)); err != nil || status != want {
					s.t.Errorf("while rules changed, %s got %d, %v, want %d", path, status, err, want)
					return
				}
			}
		})
	}
	asked.Go(func() {
		for asking.Err() == nil {
			s.drain()
		}
	})
	for i := range 5 {
		argument := fmt.Sprint("c", i)
		s.putRules("shop", refusing("b")+"\n"+strings.Replace(refusing(argument), "1000", "1001", 1))
		s.await("/own?"+argument+"=1", 403)
	}
	s.putRules("shop", refusing("a")+"\nSecRuleEngine Off")
	testenv.Eventually(s.t, 10*time.Second, "the bad rules to be logged", func(context.Context) error {
		if want := "ConfigMap shop: rules.conf: line 2: SecRuleEngine is not allowed"; !strings.Contains(s.waf.Output(), want) {
			return fmt.Errorf("the log has no %q", want)
		}
		return nil
	})
	s.await("/own?c4=1", 403)
	s.await("/own?c3=1", 200)
	stop()
	asked.Wait()
}

func (s *site) putRules(configMap, rules string) {
	s.rules.Put(map[string][]byte{configMap + "/rules.conf": []byte(rules)})
}

// await waits until a request for a path gets a status.
func (s *site) await(path string, want int) {
	s.t.Helper()
	testenv.Eventually(s.t, 10*time.Second, path+" to get "+http.StatusText(want), func(context.Context) error {
		status, err := s.connect().send(get(path))
		if err == nil && status != want {
			err = fmt.Errorf("got %d", status)
		}
		return err
	})
}
