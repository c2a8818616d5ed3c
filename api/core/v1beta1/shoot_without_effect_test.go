package v1beta1

import (
	"cmp"
	"strings"
	"testing"
	"time"
)

// warningsAbout are the warnings about an annotation.
func warningsAbout(shoot, old *Shoot, annotation string) []string {
	var texts []string
	for _, text := range WarningsShoot(shoot, old, time.Time{}) {
		if strings.HasPrefix(text, "metadata.annotations["+annotation+"]") {
			texts = append(texts, text)
		}
	}
	return texts
}

// containEach fails unless each text contains its part.
func containEach(t *testing.T, texts []string, parts ...string) {
	t.Helper()
	if len(texts) != len(parts) {
		t.Fatalf("warnings %q, want %d", texts, len(parts))
	}
	for i, part := range parts {
		if !strings.Contains(texts[i], part) {
			t.Errorf("warning %q does not contain %q", texts[i], part)
		}
	}
}

func annotated(key, value string) *Shoot {
	shoot := &Shoot{}
	if value != "" {
		shoot.Annotations = map[string]string{key: value}
	}
	return shoot
}

func TestTasksWithoutEffect(t *testing.T) {
	const dns = "deployDNSRecordInternal,deployDNSRecordExternal,deployDNSRecordIngress"
	for name, tc := range map[string]struct {
		old, now string
		want     []string
	}{
		"none":          {},
		"all known":     {now: strings.Join(ShootTasks(), ",")},
		"a misspelling": {now: "restartCoreAddon", want: []string{"restartCoreAddon has no effect"}},
		"misspelt, besides a known one": {
			now: "deployInfrastructure, restartCoreAddon", want: []string{"(available: deployDNSRecordExternal, "},
		},
		"a task of the API that nothing carries out": {
			now: "updateGardenerNodeAgentSecretName", want: []string{"updateGardenerNodeAgentSecretName has no effect"},
		},
		"the record of an ingress": {
			now: "deployDNSRecordIngress", want: []string{"deployDNSRecordIngress has no effect"},
		},
		"all DNS records, as admission requests": {now: dns},
		"misspelt earlier":                       {old: "restartCoreAddon", now: "restartCoreAddon,deployInfrastructure"},
	} {
		t.Run(name, func(t *testing.T) {
			containEach(t, warningsAbout(annotated(AnnotationShootTasks, tc.now), annotated(AnnotationShootTasks, tc.old),
				AnnotationShootTasks), tc.want...)
		})
	}
}

func TestOperationsWithoutEffect(t *testing.T) {
	with := func(changes ...func(*Shoot)) *Shoot {
		shoot := &Shoot{}
		shoot.Spec.Provider.Workers = []Worker{{Name: "pool", Minimum: 1, Maximum: 1}}
		for _, change := range changes {
			change(shoot)
		}
		return shoot
	}
	requested := func(key, value string) func(*Shoot) {
		return func(s *Shoot) { s.Annotations = map[string]string{key: value} }
	}
	now := func(value string) func(*Shoot) { return requested(AnnotationOperation, value) }
	later := func(value string) func(*Shoot) { return requested(AnnotationMaintenanceOperation, value) }
	is := func(state LastOperationState) func(*Shoot) {
		return func(s *Shoot) {
			s.Status.LastOperation = &LastOperation{Type: LastOperationTypeReconcile, State: state}
		}
	}
	failed, done := is(LastOperationStateFailed), is(LastOperationStateSucceeded)
	confined := func(s *Shoot) { yes := true; s.Spec.Maintenance = &Maintenance{ConfineSpecUpdateRollout: &yes} }
	another := func(s *Shoot) { s.Spec.Region = "elsewhere" }
	asleep := func(s *Shoot) { yes := true; s.Spec.Hibernation = &Hibernation{Enabled: &yes} }
	noSSH := func(s *Shoot) { s.Spec.Provider.WorkersSettings = &WorkersSettings{SSHAccess: &SSHAccess{}} }
	workerless := func(s *Shoot) { s.Spec.Provider.Workers = nil }

	for name, tc := range map[string]struct {
		now, old *Shoot // The client sends no status.
		key      string // Default: the operations of now.
		want     []string
	}{
		"a reconciliation of a failed Shoot": {
			now: with(now("reconcile")), old: with(failed), want: []string{"reconcile starts nothing"},
		},
		"a rotation of a failed Shoot": {
			now: with(now("rotate-ca-start")), old: with(failed), want: []string{"request rotate-ca-start again"},
		},
		"pools of a failed Shoot are rolled": {
			now: with(now("rollout-workers=*")), old: with(failed), want: []string{"rollout-workers=* starts nothing"},
		},
		"one operation more": {
			now: with(now("reconcile;rotate-ca-start")), old: with(failed, now("reconcile")), want: []string{"rotate-ca-start"},
		},
		"requested before it failed":   {now: with(now("reconcile")), old: with(failed, now("reconcile"))},
		"a failed Shoot is retried":    {now: with(now("retry")), old: with(failed)},
		"a failed Shoot is maintained": {now: with(now("maintain")), old: with(failed)},
		"changes of a failed Shoot":    {now: with(now("force-in-place-update")), old: with(failed)},
		"a failed Shoot, in maintenance": {
			now: with(later("reconcile")), old: with(failed), key: AnnotationMaintenanceOperation,
		},
		"a Shoot that has not failed":      {now: with(now("reconcile")), old: with(done)},
		"a Shoot without operations":       {now: with(now("reconcile")), old: with()},
		"a new Shoot":                      {now: with(now("reconcile"))},
		"a change that is rolled out":      {now: with(now("reconcile"), another), old: with(failed)},
		"a Shoot that is to be hibernated": {now: with(now("reconcile"), confined, asleep), old: with(failed, confined)},
		"a change that is not rolled out": {
			now: with(now("reconcile"), confined, another), old: with(failed, confined), want: []string{"reconcile"},
		},

		"the SSH key pair": {now: with(now("rotate-ssh-keypair")), old: with(done)},
		"the SSH key pair without access": {
			now: with(now("rotate-ssh-keypair"), noSSH), old: with(done, noSSH), want: []string{"rotates nothing"},
		},
		"the SSH key pair without machines": {
			now: with(now("reconcile;rotate-ssh-keypair"), workerless), old: with(done, workerless),
			want: []string{"rotate-ssh-keypair rotates nothing"},
		},
		"the SSH key pair without access, in maintenance": {
			now: with(later("rotate-ssh-keypair"), noSSH), old: with(done, noSSH),
			key: AnnotationMaintenanceOperation, want: []string{"rotates nothing"},
		},
		"the SSH key pair without access, as before": {
			now: with(now("rotate-ssh-keypair"), noSSH), old: with(done, noSSH, now("rotate-ssh-keypair")),
		},
	} {
		t.Run(name, func(t *testing.T) {
			containEach(t, warningsAbout(tc.now, tc.old, cmp.Or(tc.key, AnnotationOperation)), tc.want...)
		})
	}
}
