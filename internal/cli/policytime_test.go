package cli

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TM-1: a term becomes an interval in whole seconds; one that cannot be, or is over, is an error that says why.
func TestTerm(t *testing.T) {
	now := time.Date(2026, 11, 17, 8, 0, 0, 500, time.UTC)
	for _, tc := range []struct {
		term         Term
		begins, ends string
		err          string
	}{
		{Term{}, "", "", ""},
		{Term{For: time.Hour}, "", "2026-11-17T09:00:00Z", ""},
		{Term{For: time.Hour, From: "+2h"}, "2026-11-17T10:00:00Z", "2026-11-17T11:00:00Z", ""},
		{Term{For: time.Hour, From: "2026-11-17T12:00:00+02:00"}, "2026-11-17T10:00:00Z", "2026-11-17T11:00:00Z", ""},
		{Term{From: "2026-12-01T00:00:00Z"}, "2026-12-01T00:00:00Z", "", ""},
		{Term{For: -time.Hour}, "", "", "--for=-1h0m0s"},
		{Term{For: 1500 * time.Millisecond}, "", "", "whole seconds"},
		{Term{For: time.Hour, From: "2026-11-17T06:00:00Z"}, "", "", "2026-11-17T07:00:00Z, which is past"},
		{Term{For: time.Hour, From: "tomorrow"}, "", "", `"tomorrow" is neither`},
		{Term{For: time.Hour, From: "+x"}, "", "", `"+x" is not a distance`},
		{Term{For: time.Hour, From: "2027-11-17T06:00:00.5Z"}, "", "", "whole seconds"},
	} {
		begins, ends, err := tc.term.interval(now)
		spell := func(at *metav1.Time) string {
			if at == nil {
				return ""
			}
			return spellTime(at.Time)
		}
		if (err != nil) != (tc.err != "") || err != nil && !strings.Contains(err.Error(), tc.err) || spell(begins) != tc.begins || spell(ends) != tc.ends {
			t.Errorf("%+v: %s to %s, %v", tc.term, spell(begins), spell(ends), err)
		}
	}
}

// TM-1: a grant with an end has a name of its own, which the API takes, for every kind of subject.
func TestBindingName(t *testing.T) {
	end := &metav1.Time{Time: time.Date(2026, 11, 17, 9, 0, 0, 0, time.UTC)}
	for _, tc := range []struct {
		users, groups []string
		until         *metav1.Time
		want          string
	}{
		{[]string{"alice"}, nil, end, "admin-alice-until-20261117-090000"},
		{nil, []string{"On Call/1"}, end, "admin-on-call-1-until-20261117-090000"},
		{[]string{"system:serviceaccount:a:b"}, nil, nil, "admin-system-serviceaccount-a-b-until-later"},
		{[]string{strings.Repeat("é", 300)}, nil, end, "admin--until-20261117-090000"},
	} {
		if got := bindingName("admin", tc.users, tc.groups, tc.until); got != tc.want {
			t.Errorf("%q, want %q", got, tc.want)
		}
	}
}
