package tokens

import (
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	accessv1alpha1 "proviso.dev/proviso/api/access/v1alpha1"
)

// TK-6: a list has the revocations that are about it, and tells nothing about others.
func TestRevocationsOfAList(t *testing.T) {
	at := metav1.NewTime(time.Unix(1_800_000_000, 0))
	made := func(name string, ids, users []string) *accessv1alpha1.TokenRevocation {
		at = metav1.NewTime(at.Add(time.Second))
		return &accessv1alpha1.TokenRevocation{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: at},
			Spec: accessv1alpha1.TokenRevocationSpec{TokenIDs: ids, UserNames: users, IssuedBefore: &at}}
	}
	all := []*accessv1alpha1.TokenRevocation{made("both", []string{"1", "2"}, nil), made("others", []string{"2"}, []string{"mona"}), made("edgar", nil, []string{"mona", "edgar"})}
	slices.Reverse(all)
	names := func(list []Revocation) (out []string) {
		for _, r := range list {
			out = append(out, r.Name)
		}
		return out
	}
	own := (&subjects{user: "edgar", ids: map[string]bool{"1": true}}).revocations(all)
	if got := names(own); !slices.Equal(got, []string{"both", "edgar"}) {
		t.Fatalf("of edgar: %v", got)
	}
	if !slices.Equal(own[0].TokenIDs, []string{"1"}) || !slices.Equal(own[1].UserNames, []string{"edgar"}) {
		t.Errorf("others are named: %+v", own)
	}
	if got := names((&subjects{all: true}).revocations(all)); !slices.Equal(got, []string{"both", "others", "edgar"}) {
		t.Errorf("of all: %v", got)
	}
}
