package test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	backupv1alpha1 "hortus.dev/hortus/api/backup/v1alpha1"
	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/cli/backup"
	"hortus.dev/hortus/internal/etcdbackup/chain"
	"hortus.dev/hortus/local/clouddaemon/cloudtest"
	"hortus.dev/hortus/local/provider/credentials"
	"hortus.dev/hortus/test/env"
)

// backedUp is a Shoot with backups in a bucket of the local cloud. It has no seed.
type backedUp struct {
	*garden
	cloud  *cloudtest.Cloud
	shoot  *corev1beta1.Shoot
	secret *corev1.Secret
	bucket *corev1beta1.BackupBucket
	entry  *corev1beta1.BackupEntry
	prefix string
}

func newBackedUp(t *testing.T) *backedUp {
	t.Helper()
	g := newGarden(t)
	applyRoles.Do(func() { applyProjectRoles(t, g.Environment) })
	b := &backedUp{garden: g, cloud: cloudtest.Start(t, cloudtest.Options{})}
	for user, role := range map[string]string{"backup-viewer": "viewer", "backup-admin": "member"} {
		g.Create(t, &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: g.namespace, Name: user},
			RoleRef: rbacv1.RoleRef{
				APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "gardener.cloud:system:project-" + role,
			},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
		})
	}
	var seed *corev1beta1.Seed
	b.shoot, seed = g.placed()
	id := "shoot--dev--" + b.shoot.Name
	g.mustPatch(b.shoot, `{"status":{"technicalID":"`+id+`","uid":"`+string(b.shoot.UID)+`","seedName":"`+seed.Name+`"}}`,
		"status")
	if err := b.Client.Create(g.ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "garden"}}); err != nil &&
		!apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	b.secret = &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "garden", Name: env.Name("bucket-")},
		Data:       credentials.S3Data(b.cloud.Config, "local"),
	}
	b.bucket = &corev1beta1.BackupBucket{ObjectMeta: metav1.ObjectMeta{Name: env.Name("bucket-")},
		Spec: corev1beta1.BackupBucketSpec{
			Provider: corev1beta1.BackupBucketProvider{Type: "local", Region: "local"}, SeedName: ptr.To(seed.Name),
			CredentialsRef: &corev1.ObjectReference{APIVersion: "v1", Kind: "Secret", Namespace: "garden", Name: b.secret.Name},
		}}
	entry := &corev1beta1.BackupEntry{ObjectMeta: metav1.ObjectMeta{
		Namespace: g.namespace, Name: id + "--" + string(b.shoot.UID),
	},
		Spec: corev1beta1.BackupEntrySpec{BucketName: b.bucket.Name, SeedName: ptr.To(seed.Name)}}
	g.Create(t, b.secret, b.bucket, entry)
	if _, err := b.cloud.Client.CreateBucket(g.ctx, b.bucket.Name); err != nil {
		t.Fatal(err)
	}
	b.entry, b.prefix = entry, entry.Name+"/etcd-main/"
	return b
}

// store writes an object to the bucket.
func (b *backedUp) store(kind chain.Kind, first, last int64, at time.Time) {
	b.t.Helper()
	o := chain.Object{Epoch: 1, Kind: kind, First: first, Last: last, Created: at}
	if _, err := b.cloud.Client.PutObject(b.ctx, b.bucket.Name, b.prefix+o.Name(), strings.NewReader("x")); err != nil {
		b.t.Fatal(err)
	}
}

// hortus runs `hortus backup` as a user.
func (b *backedUp) hortus(user string, args ...string) (string, error) {
	b.t.Helper()
	cmd := backup.NewCommand()
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SilenceUsage = true
	cmd.SetArgs(append(args, b.shoot.Name, "-n", b.namespace, "--kubeconfig", b.writeKubeconfig(user)))
	err := cmd.ExecuteContext(b.ctx)
	return out.String(), err
}

func TestMembersListBackupsWithoutTheSeed(t *testing.T) {
	b := newBackedUp(t)
	begin := time.Date(2026, 1, 31, 15, 0, 0, 0, time.UTC)
	b.store(chain.Full, 1, 100, begin)
	b.store(chain.Delta, 101, 150, begin.Add(time.Minute))
	b.store(chain.Delta, 151, 151, begin.Add(2*time.Minute))
	out, err := b.hortus("backup-viewer", "list")
	want := "2026-01-31T15:00:00Z  100       2026-01-31T15:02:00Z  151             2       0.0 MiB"
	if err != nil || !strings.Contains(out, want) {
		t.Errorf("list = %v:\n%s\nwant a line with\n%s", err, out, want)
	}
	out, err = b.hortus("backup-viewer", "list", "-o", "json")
	found := &backupv1alpha1.ShootBackups{}
	if err != nil || json.Unmarshal([]byte(out), found) != nil || len(found.Chains) != 1 ||
		len(found.Chains[0].Deltas) != 2 || found.Name != b.shoot.Name {
		t.Errorf("list -o json = %v:\n%s", err, out)
	}
	if out, err := b.hortus("backup-stranger", "list"); !apierrors.IsForbidden(err) {
		t.Errorf("a stranger lists: %v\n%s", err, out)
	}
	err = b.ClientAs(t, "backup-stranger").SubResource("backups").Get(b.ctx, b.shoot, &backupv1alpha1.ShootBackups{})
	if !apierrors.IsForbidden(err) {
		t.Errorf("a non-member reads the subresource: %v", err)
	}

	// Errors contain no part of the credentials.
	for what, data := range map[string]map[string]string{
		"a wrong key":     {"secretAccessKey": "hunter2hunter2"},
		"another address": {"endpoint": "https://127.0.0.1:1/hunter2"},
		"a folder":        {"path": "/etc/hunter2"},
	} {
		patch, err := json.Marshal(map[string]any{"stringData": data})
		if err != nil {
			t.Fatal(err)
		}
		before := b.secret.DeepCopy()
		b.mustPatch(b.secret, string(patch))
		out, err := b.hortus("backup-viewer", "list")
		if err == nil || !apierrors.IsServiceUnavailable(err) || strings.Contains(err.Error()+out, "hunter2") ||
			strings.Contains(err.Error()+out, b.cloud.Config.AccessKey) {
			t.Errorf("%s gives %v\n%s", what, err, out)
		}
		before.ResourceVersion = ""
		if err := b.Client.Update(b.ctx, before); err != nil {
			t.Fatal(err)
		}
		b.secret = before
	}
}

func TestSnapshotOnRequest(t *testing.T) {
	b := newBackedUp(t)
	b.store(chain.Full, 1, 100, time.Now().Add(-time.Hour))
	// The gardenlet removes the request when the snapshot is stored.
	gardenlet := func(act func()) {
		env.Eventually(t, "the request is there", func() (bool, error) {
			b.get(b.shoot)
			_, there := b.shoot.Annotations[corev1beta1.AnnotationTakeBackup]
			return there, nil
		})
		act()
		b.mustPatch(b.shoot, `{"metadata":{"annotations":{"`+corev1beta1.AnnotationTakeBackup+`":null}}}`)
	}
	run := func(act func()) (out string, err error) {
		done := make(chan struct{})
		go func() {
			defer close(done)
			out, err = b.hortus("backup-admin", "now")
		}()
		gardenlet(act)
		<-done
		return out, err
	}
	if out, err := run(func() { b.store(chain.Full, 1, 200, time.Now()) }); err != nil || !strings.Contains(out, " 200 ") {
		t.Errorf("now = %v:\n%s", err, out)
	}
	if out, err := run(func() {}); err == nil || !strings.Contains(err.Error(), "no snapshot was taken") {
		t.Errorf("now without a snapshot = %v:\n%s", err, out)
	}
	// No gardenlet handles the request.
	if out, err := b.hortus("backup-admin", "now", "--timeout=20s"); err == nil ||
		!strings.Contains(err.Error(), "withdrawn") {
		t.Errorf("now without a gardenlet = %v:\n%s", err, out)
	}
	b.get(b.shoot)
	if _, left := b.shoot.Annotations[corev1beta1.AnnotationTakeBackup]; left {
		t.Error("the request is still there")
	}
	if _, err := b.hortus("backup-viewer", "now"); !apierrors.IsForbidden(err) {
		t.Errorf("a viewer requests a snapshot: %v", err)
	}
}

// restorableFrom records the first restorable point, as the gardenlet does.
func (b *backedUp) restorableFrom(value string) {
	b.t.Helper()
	b.mustPatch(b.entry, `{"metadata":{"annotations":{"`+corev1beta1.AnnotationRestorableFrom+`":"`+value+`"}}}`)
}

func TestEarlyPointsAreRefused(t *testing.T) {
	b := newBackedUp(t)
	begin := time.Date(2026, 1, 31, 15, 0, 0, 0, time.UTC)
	b.store(chain.Full, 1, 1, begin.Add(-time.Hour))
	b.store(chain.Delta, 2, 60, begin.Add(-time.Minute))
	b.store(chain.Full, 1, 100, begin)
	b.store(chain.Delta, 101, 150, begin.Add(time.Minute))
	member := b.ClientAs(t, "backup-admin")
	request := func(point string) error {
		return member.Patch(b.ctx, b.shoot.DeepCopy(), client.RawPatch(types.MergePatchType,
			[]byte(`{"metadata":{"annotations":{"`+corev1beta1.AnnotationRestoreBackup+`":"`+point+`"}}}`)))
	}
	out, err := b.hortus("backup-viewer", "list")
	if err != nil || strings.Count(out, "\n") != 3 {
		t.Errorf("list before the Shoot has been created = %v:\n%s\nwant two chains", err, out)
	}
	if _, err = b.hortus("backup-admin", "restore", "--revision=120", "--yes"); !apierrors.IsForbidden(err) ||
		!strings.Contains(err.Error(), "completely created") {
		t.Errorf("a restore before the Shoot has been created gives %v", err)
	}

	const from = "from revision 120, 2026-01-31T15:01:00Z, on"
	b.restorableFrom("2026-01-31T15:01:00Z 120")
	if out, err = b.hortus("backup-viewer", "list"); err != nil || strings.Count(out, "\n") != 3 ||
		!strings.Contains(out, "Points can be restored "+from) {
		t.Errorf("list = %v:\n%s\nwant one chain and the first point", err, out)
	}
	found := &backupv1alpha1.ShootBackups{}
	if err := b.Client.SubResource("backups").Get(b.ctx, b.shoot, found); err != nil || len(found.Chains) != 1 ||
		found.RestorableFrom == nil || found.RestorableFrom.Revision != 120 ||
		!found.RestorableFrom.Time.Equal(ptr.To(metav1.NewTime(begin.Add(time.Minute)))) {
		t.Errorf("backups = %+v, %v", found, err)
	}
	for _, point := range []string{"--revision=1", "--revision=119", "--to=2026-01-31T15:00:59Z"} {
		if out, err := b.hortus("backup-admin", "restore", point, "--yes"); err == nil ||
			!strings.Contains(err.Error(), from) {
			t.Errorf("restore %s = %v:\n%s", point, err, out)
		}
	}
	for _, point := range []string{"revision=1", "revision=119", "time=2026-01-31T15:00:59Z"} {
		if err := request(point); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), from) {
			t.Errorf("a request for %s gives %v", point, err)
		}
	}
	for _, point := range []string{"revision=120", "time=2026-01-31T15:01:00Z"} {
		if err := request(point); err != nil {
			t.Errorf("a request for %s gives %v", point, err)
		}
	}
	// An earlier request does not block other changes.
	b.restorableFrom("2026-01-31T15:02:00Z 130")
	b.mustPatch(b.shoot, `{"metadata":{"labels":{"a":"b"}}}`)

	// Members of the project cannot lift the restriction.
	err = member.Patch(b.ctx, b.entry.DeepCopy(), client.RawPatch(types.MergePatchType,
		[]byte(`{"metadata":{"annotations":{"`+corev1beta1.AnnotationRestorableFrom+`":null}}}`)))
	if !apierrors.IsForbidden(err) {
		t.Errorf("a member changes the BackupEntry: %v", err)
	}
}

func TestRestoreCommandEnds(t *testing.T) {
	b := newBackedUp(t)
	begin := time.Date(2026, 1, 31, 15, 0, 0, 0, time.UTC)
	b.store(chain.Full, 1, 100, begin)
	b.restorableFrom("2026-01-31T15:00:00Z 100")
	// The gardenlet removes the request when the operation begins.
	state := func(state, description string) {
		b.get(b.shoot)
		b.mustPatch(b.shoot,
			fmt.Sprintf(`{"metadata":{"annotations":{%q:null}},"status":{"observedGeneration":%d,"lastOperation":`+
				`{"type":"Reconcile","state":%q,"description":%q,"progress":93,"lastUpdateTime":"2026-01-31T15:00:00Z"}}}`,
				corev1beta1.AnnotationRestoreBackup, b.shoot.Generation, state, description), "status")
	}
	event := func(reason, note string) {
		if err := b.Client.Create(b.ctx, &eventsv1.Event{
			ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: env.Name("e")}, EventTime: metav1.NowMicro(),
			Type:   "Normal",
			Reason: reason, Note: note, Action: "Restore", ReportingController: "gardenlet", ReportingInstance: "gardenlet-0",
			Regarding: corev1.ObjectReference{
				APIVersion: corev1beta1.SchemeGroupVersion.String(), Kind: "Shoot", Namespace: b.namespace, Name: b.shoot.Name,
				UID: b.shoot.UID,
			},
		}); err != nil {
			t.Fatal(err)
		}
	}
	for name, tc := range map[string]struct {
		act     func()
		timeout string
		out     string
		failure string
	}{
		"done": {
			act: func() {
				state("Processing", "")
				event(corev1beta1.EventBackupRestored, "etcd has been restored to revision 100.")
				state("Succeeded", "")
			},
			timeout: "1h", out: "etcd has been restored to revision 100.\n",
		},
		"an error that passes": {
			act: func() {
				state("Error", "no route to host")
				state("Processing", "")
				event(corev1beta1.EventBackupRestored, "etcd has been restored to revision 100.")
				state("Succeeded", "")
			},
			timeout: "1h", out: "etcd has been restored to revision 100.\n",
		},
		"refused by the gardenlet, and the operation does not end": {
			act: func() {
				event(corev1beta1.EventBackupNotRestored, "revision=100 is not restored: too early")
				state("Processing", "Nodes are missing.")
			},
			timeout: "1h", failure: "revision=100 is not restored: too early",
		},
		"a failed operation": {
			act: func() { state("Failed", "no quota") }, timeout: "1h", failure: "is Failed: no quota",
		},
		"an error that lasts": {
			act: func() { state("Error", "etcd is away") }, timeout: "20s", failure: "is stuck: etcd is away",
		},
		"an operation without an end": {
			act: func() { state("Processing", "Nodes are missing.") }, timeout: "20s", failure: "is not done yet and continues",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var out string
			var err error
			done := make(chan struct{})
			go func() {
				defer close(done)
				out, err = b.hortus("backup-admin", "restore", "--revision=100", "--yes", "--timeout="+tc.timeout)
			}()
			env.Eventually(t, "the request is there", func() (bool, error) {
				b.get(b.shoot)
				_, there := b.shoot.Annotations[corev1beta1.AnnotationRestoreBackup]
				return there, nil
			})
			tc.act()
			<-done
			if (err != nil) != (tc.failure != "") || err != nil && !strings.Contains(err.Error(), tc.failure) {
				t.Errorf("restore = %v:\n%s\nwant the error %q", err, out, tc.failure)
			}
			if !strings.HasSuffix(out, tc.out) {
				t.Errorf("restore prints:\n%s\nwant at the end\n%s", out, tc.out)
			}
		})
	}
}
