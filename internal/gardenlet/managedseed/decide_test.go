package managedseed

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
)

func TestShootReconciled(t *testing.T) {
	const (
		create  = corev1beta1.LastOperationTypeCreate
		migrate = corev1beta1.LastOperationTypeMigrate
		success = corev1beta1.LastOperationStateSucceeded
		failure = corev1beta1.LastOperationStateError
	)
	for name, tc := range map[string]struct {
		last       *corev1beta1.LastOperation
		hibernated bool
		want       string
	}{
		"new": {nil, false, `False Reconciling Shoot "s" has not been created yet.`},
		"created": {&corev1beta1.LastOperation{Type: create, State: success}, false,
			`True Reconciled Shoot "s" is reconciled.`},
		"hibernated": {&corev1beta1.LastOperation{Type: create, State: success}, true,
			`False Reconciling Shoot "s" is hibernated.`},
		"failing": {&corev1beta1.LastOperation{Type: create, State: failure, Description: "no quota"}, false,
			`False Reconciling Shoot "s": Create is Error: no quota`},
		"between two Seeds": {&corev1beta1.LastOperation{Type: migrate, State: success}, false,
			`False Reconciling Shoot "s": Migrate has succeeded.`},
	} {
		t.Run(name, func(t *testing.T) {
			shoot := &corev1beta1.Shoot{}
			shoot.Name, shoot.Status.LastOperation, shoot.Status.IsHibernated = "s", tc.last, tc.hibernated
			if got := text(shootReconciled(shoot)); got != tc.want {
				t.Errorf("the condition is %q, want %q", got, tc.want)
			}
		})
	}
}

func TestSeedRegistered(t *testing.T) {
	for name, tc := range map[string]struct {
		exists bool
		waits  string
		err    error
		want   string
	}{
		"being installed":    {false, "pods start", nil, "False Reconciling pods start"},
		"not registered yet": {false, "", nil, "False Reconciling The gardenlet runs."},
		"registered":         {true, "", nil, `True Reconciled Seed "s" is registered.`},
		"being changed": {true, "pods start", nil,
			`True Reconciled Seed "s" is registered. Its gardenlet is being changed: pods`},
		"an invalid new one":  {false, "", errors.New("bad"), "False ReconcileError bad"},
		"an invalid change":   {true, "", errors.New("bad"), "False ReconcileError bad"},
		"invalid and waiting": {true, "pods start", errors.New("bad"), "False ReconcileError bad"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := text(seedRegistered("s", tc.exists, tc.waits, tc.err)); !strings.HasPrefix(got, tc.want) {
				t.Errorf("the condition is %q, want %q", got, tc.want)
			}
		})
	}
}

func text(c corev1beta1.Condition) string {
	return fmt.Sprintf("%s %s %s", c.Status, c.Reason, c.Message)
}
