package replicas

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Some stored content would make a release that does not know it decide differently. So the record lists what is
// needed, every server publishes what it knows, and a server that lacks something needed does not serve (TR-6, PO-25).

// ShadowRules is to know that a rule can be there and not be enforced. A release that does not would quarantine such a
// rule, and a deny that is quarantined denies.
const ShadowRules = "rules that are not enforced"

// Known is what this release knows, with the fields of stored objects that the first release did not know.
func Known(fields ...string) []string {
	known := []string{ShadowRules}
	for _, field := range fields {
		known = append(known, Field(field))
	}
	return known
}

// Field is to know a field of a stored object, such as "Policy.ignorable". A release that does not would count it as a
// deny.
func Field(name string) string { return "the field " + name }

const (
	// renewed is how often it is written down that something is still needed, and kept for how long it stays needed
	// after that. Between the two lies whatever a write takes, and clocks that differ.
	renewed = time.Minute
	kept    = 10 * time.Minute
)

// wire is the record as it lies in etcd. While something is needed the name of the master namespace stands elsewhere,
// and a sentence in its place: releases that know of no needs take that for a difference, and do not serve either.
type wire struct {
	MasterNamespace string           `json:"masterNamespace"`
	Gates           map[string]bool  `json:"gates"`
	Needs           map[string]int64 `json:"needs,omitempty"`
	Namespace       string           `json:"namespace,omitempty"`
}

// MarshalJSON implements json.Marshaler.
func (s Settings) MarshalJSON() ([]byte, error) {
	w := wire{MasterNamespace: s.MasterNamespace, Gates: s.Gates, Needs: s.Needs}
	if len(s.Needs) > 0 {
		w.Namespace, w.MasterNamespace = s.MasterNamespace, "none that this release could serve: a newer one is needed, for "+strings.Join(s.needs(), ", ")
	}
	return json.Marshal(w)
}

// UnmarshalJSON implements json.Unmarshaler.
func (s *Settings) UnmarshalJSON(data []byte) error {
	var w wire
	if err := json.Unmarshal(data, &w); err != nil {
		return err
	}
	*s = Settings{MasterNamespace: w.MasterNamespace, Gates: w.Gates, Needs: w.Needs}
	if len(w.Needs) > 0 {
		s.MasterNamespace = w.Namespace
	}
	return nil
}

func (s Settings) needs() (all []string) {
	for need := range s.Needs {
		all = append(all, need)
	}
	slices.Sort(all)
	return all
}

// unknown lists what the record needs and this server does not know.
func (c Config) unknown(record Settings) (all []string) {
	for _, need := range record.needs() {
		if !slices.Contains(c.Knows, need) {
			all = append(all, fmt.Sprintf("the policy has %s, which this release does not know", need))
		}
	}
	return all
}

// UnknowingError names replicas that do not know something.
type UnknowingError struct {
	What  string
	Hosts []string
}

func (e *UnknowingError) Error() string {
	return fmt.Sprintf("%s cannot be stored: the replica on %s runs a release that does not know that, and would decide otherwise: upgrade it first", e.What, strings.Join(e.Hosts, " and on "))
}

// Need says, before something is stored, that every replica has to know it. It is an error if a replica runs that does
// not. One that starts later reads the record and does not serve; one that started meanwhile is found by looking again.
func (m *Member) Need(ctx context.Context, what string, dryRun bool) error {
	if m.client == nil {
		return errors.New("this replica has not joined the others yet: try again in a moment")
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := m.allKnow(ctx, what); err != nil || dryRun {
		return err
	}
	now := time.Now()
	err := m.change(ctx, func(s *Settings) bool {
		if now.Sub(time.Unix(s.Needs[what], 0)) < renewed {
			return false
		}
		if s.Needs == nil {
			s.Needs = map[string]int64{}
		}
		s.Needs[what] = now.Unix()
		return true
	})
	if err != nil {
		return fmt.Errorf("the record of the replicas: %w", err)
	}
	return m.allKnow(ctx, what)
}

// NoNeed says that nothing of it is stored. It stays needed for some minutes: another replica may be about to store it.
func (m *Member) NoNeed(ctx context.Context, what string) error {
	if m.client == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return m.change(ctx, func(s *Settings) bool {
		since, needed := s.Needs[what]
		if !needed || time.Since(time.Unix(since, 0)) < kept {
			return false
		}
		delete(s.Needs, what)
		return true
	})
}

// change changes the record, unless edit says that there is nothing to change.
func (m *Member) change(ctx context.Context, edit func(*Settings) bool) error {
	for {
		answer, err := m.client.Get(ctx, m.recordKey())
		if err != nil {
			return err
		}
		var revision int64
		record := m.cfg.Settings
		if len(answer.Kvs) > 0 {
			record, revision = Settings{}, answer.Kvs[0].ModRevision
			if err := m.decode(answer.Kvs[0].Value, &record); err != nil {
				return err
			}
		}
		if !edit(&record) {
			return nil
		}
		data, err := json.Marshal(record)
		if err != nil {
			return err
		}
		done, err := m.client.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(m.recordKey()), "=", revision)).
			Then(clientv3.OpPut(m.recordKey(), string(data))).Commit()
		if err != nil || done.Succeeded {
			return err
		}
	}
}

// allKnow is an error if a replica runs that does not know something.
func (m *Member) allKnow(ctx context.Context, what string) error {
	found, err := m.client.Get(ctx, m.replicasKey(), clientv3.WithPrefix())
	if err != nil {
		return fmt.Errorf("reading the list of replicas from etcd: %w", err)
	}
	unknowing := &UnknowingError{What: what}
	for _, kv := range found.Kvs {
		var e entry
		if err := json.Unmarshal(kv.Value, &e); err != nil || !slices.Contains(e.Knows, what) {
			unknowing.Hosts = append(unknowing.Hosts, e.Host)
		}
	}
	if len(unknowing.Hosts) == 0 {
		return nil
	}
	slices.Sort(unknowing.Hosts)
	unknowing.Hosts = slices.Compact(unknowing.Hosts)
	return unknowing
}
