package keeper

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"time"

	"gateway/internal/certificates"
	"gateway/internal/haproxy/runtime"
	"gateway/internal/inventory"
	"gateway/internal/keystream"
	"gateway/internal/logging"
)

// object is a Secret or ConfigMap that changed.
type object struct {
	keystream.Object
	// pair is the certificate of a Secret; nil: it has none.
	pair *waiting
}

// newObject checks whether certificate and key fit.
func newObject(of keystream.Object) object {
	o := object{Object: of}
	if certificate, ok := of.Files[certificates.CertificateFile]; ok && of.Kind == keystream.KindSecret {
		o.pair = &waiting{digest: of.Digest}
		o.pair.Pair, o.pair.problem = certificates.Join(certificate, of.Files[certificates.KeyFile])
	}
	return o
}

// waiting is a certificate with its key that are not passed on.
type waiting struct {
	certificates.Pair
	// problem is why they do not fit; "" if they do.
	problem string
	digest  string
	// until is when to look at them again, zero: not before the Secret changes, or the clock is put back.
	until time.Time
	// asks reports whether HAProxy could not be asked about them.
	asks bool
}

// take notes objects, and keeps the ones that HAProxy need not check. Certificates are looked at next.
func (k *Keeper) take(objects []object, c *changes) error {
	isOther, isConfigMap := false, false
	for i := range objects {
		object := &objects[i]
		if object.Kind == keystream.KindConfigMap {
			isConfigMap = true
			k.takeConfigMap(object, c)
			continue
		}
		small := maps.Clone(object.Files)
		delete(small, certificates.CertificateFile)
		delete(small, certificates.KeyFile)
		if !maps.EqualFunc(small, k.small[object.Name], bytes.Equal) {
			isOther = true
			if k.small[object.Name] = small; len(small) == 0 {
				delete(k.small, object.Name)
			}
		}
		delete(k.waits, object.Name)
		if object.pair != nil {
			k.waits[object.Name] = object.pair
			c.looks = append(c.looks, object.Name)
			continue
		}
		// That is no mistake. HAProxy's file stays as long as a configuration names it.
		k.gone[object.Name] = true
		entry := k.entry(c, object.Name)
		entry.Certificate, entry.Problem = nil, ""
		c.passed[keystream.Key(object.Kind, object.Name)] = &object.Digest
	}
	if isOther || k.keys == nil {
		k.passUsers(c)
	}
	return k.keep(isOther, isConfigMap)
}

// entry returns the entry of a Secret, to be changed.
func (k *Keeper) entry(c *changes, secret string) *inventory.Entry {
	key := inventory.SecretKey(secret)
	if c.entries[key] == nil {
		entry := k.shown.Values[key]
		c.entries[key] = &entry
	}
	return c.entries[key]
}

// asks reports whether certificates wait for HAProxy.
func (k *Keeper) asks() bool {
	for _, w := range k.waits {
		if w.asks {
			return true
		}
	}
	return false
}

// candidate is a pair that fits and is not HAProxy's yet.
type candidate struct {
	secret string
	certificates.Pair
}

// passPairs passes on the certificates of Secrets that changed, and those that may wait no more.
func (k *Keeper) passPairs(ctx context.Context, c *changes, at time.Time) {
	if len(k.waits) == 0 {
		return
	}
	_, down := k.HAProxy.Process(ctx)
	turns := askAtOnce
	for secret, w := range k.waits {
		switch {
		case w.asks && (down != nil || turns == 0):
			k.waiting = true
		case w.asks:
			turns--
			c.looks = append(c.looks, secret)
		case !w.until.IsZero() && !at.Before(w.until) || at.Before(k.from):
			c.looks = append(c.looks, secret)
		}
	}
	slices.Sort(c.looks)
	if c.looks = slices.Compact(c.looks); len(c.looks) == 0 {
		return
	}
	k.from = at.Round(0)
	var candidates []candidate
	for _, secret := range c.looks {
		pair, problem, until := k.check(secret, at)
		switch {
		case problem != "":
			k.refuse(c, secret, problem, until)
		case k.has(secret, pair.Joined):
			k.accept(c, secret, pair)
			delete(c.pairs, filepath.Join(secret, certificates.JoinedFile))
		default:
			candidates = append(candidates, candidate{secret, pair})
		}
	}
	k.passNew(ctx, c, candidates, down, at)
}

// check returns the pair of a Secret, or why it cannot be used, and when time alone changes that, zero: never. A pair
// counts, too, that nobody may use now, if the earlier one is no better.
func (k *Keeper) check(secret string, at time.Time) (pair certificates.Pair, problem string, until time.Time) {
	w := k.waits[secret]
	if w.problem != "" {
		return w.Pair, w.problem, time.Time{}
	}
	pair = w.Pair
	earlier := k.shown.Values[inventory.SecretKey(secret)].Certificate
	if earlier == nil {
		return pair, "", time.Time{}
	}
	if worse, _ := certificates.CheckTime(earlier.NotBefore, earlier.NotAfter, at); worse != "" {
		return pair, "", time.Time{}
	}
	problem, until = certificates.CheckTime(pair.Leaf.NotBefore, pair.Leaf.NotAfter, at)
	return pair, problem, until
}

// has reports whether HAProxy's file has a pair.
func (k *Keeper) has(secret string, joined []byte) bool {
	content, err := os.ReadFile(filepath.Join(k.Pairs, secret, certificates.JoinedFile))
	return err == nil && bytes.Equal(content, joined)
}

// passNew passes on pairs that HAProxy does not have, once it has been asked about them. down is why it cannot be.
// A pod with many pairs starts on those that it takes for sure: to ask about one costs HAProxy as much as a handshake.
func (k *Keeper) passNew(ctx context.Context, c *changes, candidates []candidate, down error, at time.Time) {
	isStart := down != nil && len(candidates) > askAll
	for i := range candidates {
		secret, pair, problem := candidates[i].secret, candidates[i].Pair, ""
		if isStart && pair.Sure {
			k.accept(c, secret, pair)
			continue
		}
		if down == nil && i < askAtOnce {
			problem, down = k.ask(ctx, pair.Joined)
		}
		switch {
		case down != nil || i >= askAtOnce:
			k.waits[secret].asks, k.waiting, c.passed[inventory.SecretKey(secret)] = true, true, nil
		case problem != "":
			k.refuse(c, secret, problem, at.Add(askAgain))
		default:
			k.accept(c, secret, pair)
		}
	}
	if k.waiting {
		logging.V(1).Infof("Certificates wait until HAProxy can be asked about them: %v", down)
	}
}

// ask returns why HAProxy cannot use a pair, "" if it can. An error means that it did not answer.
func (k *Keeper) ask(ctx context.Context, joined []byte) (problem string, err error) {
	err = k.HAProxy.CheckCertificate(ctx, joined)
	var refused *runtime.RefusedCertificateError
	if errors.As(err, &refused) {
		return "HAProxy refuses the certificate: " + refused.Reason, nil
	}
	return "", err
}

// accept passes a pair on.
func (k *Keeper) accept(c *changes, secret string, pair certificates.Pair) {
	c.pairs[filepath.Join(secret, certificates.JoinedFile)] = pair.Joined
	entry := k.entry(c, secret)
	entry.Certificate, entry.Problem = inventory.Describe(pair.Leaf), ""
	c.passed[inventory.SecretKey(secret)] = &k.waits[secret].digest
	delete(k.waits, secret)
	delete(k.gone, secret)
}

// refuse notes why the pair of a Secret is not passed on.
func (k *Keeper) refuse(c *changes, secret, problem string, until time.Time) {
	k.waits[secret].until, k.waits[secret].asks = until, false
	entry := k.entry(c, secret)
	if entry.Problem != problem {
		logging.Warningf("Secret %s: %s", secret, problem)
	}
	entry.Problem = problem
	c.passed[inventory.SecretKey(secret)] = nil // it is to be had again
}

// dropSame drops entries that are the same as before.
func (c *changes) dropSame(before map[string]inventory.Entry) {
	maps.DeleteFunc(c.entries, func(key string, entry *inventory.Entry) bool {
		earlier, ok := before[key]
		return ok && reflect.DeepEqual(earlier, *entry)
	})
}
