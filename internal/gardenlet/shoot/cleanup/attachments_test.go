package cleanup

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// VolumeAttachments of missing nodes are deleted at once, and lose their finalizers after five minutes.
func TestRunLostAttachments(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	attachment := func(name, node string, labels map[string]string, finalizers ...string) *storagev1.VolumeAttachment {
		return &storagev1.VolumeAttachment{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels, Finalizers: finalizers},
			Spec:       storagev1.VolumeAttachmentSpec{Attacher: "d", NodeName: node},
		}
	}
	deleted := func(a *storagev1.VolumeAttachment, ago time.Duration) *storagev1.VolumeAttachment {
		a.DeletionTimestamp = &metav1.Time{Time: now.Add(-ago)}
		return a
	}
	line := func(deleted, finalized int) string {
		return fmt.Sprintf(`"level"=0 "msg"="Cleaned up objects of the Shoot, since it is deleted" "kind"="VolumeAttachment" `+
			`"deleted"=%d "finalizersRemoved"=%d "snapshotsReleased"=0`, deleted, finalized)
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "here"}}
	kept := map[string]string{"shoot.gardener.cloud/no-cleanup": "true"}
	for name, tc := range map[string]struct {
		objects []client.Object
		// left is what the pass reports, exists what is there afterwards, and deleted what of it is in deletion.
		left, exists, deleted []string
		logged                string // The only log line.
	}{
		"nothing": {},
		"of a node that exists": {
			objects: []client.Object{node, attachment("a", "here", nil)}, exists: []string{"a"},
		},
		"of a missing node": {
			objects: []client.Object{node, attachment("a", "gone", nil)}, logged: line(1, 0),
		},
		"of a missing node, to be kept": {
			objects: []client.Object{attachment("a", "gone", kept)}, exists: []string{"a"},
		},
		"of both": {
			objects: []client.Object{node, attachment("a", "gone", nil), attachment("b", "here", nil, "d")},
			exists:  []string{"b"}, logged: line(1, 0),
		},
		"with a finalizer": {
			objects: []client.Object{attachment("a", "gone", nil, "d")},
			left:    []string{"VolumeAttachment a"}, exists: []string{"a"}, deleted: []string{"a"}, logged: line(1, 0),
		},
		"with a finalizer, in deletion for four minutes": {
			objects: []client.Object{deleted(attachment("a", "gone", nil, "d"), 4*time.Minute)},
			left:    []string{"VolumeAttachment a"}, exists: []string{"a"}, deleted: []string{"a"},
		},
		"with a finalizer, in deletion for six minutes": {
			objects: []client.Object{deleted(attachment("a", "gone", nil, "d"), 6*time.Minute)}, logged: line(0, 1),
		},
		"of a node that exists, in deletion for six minutes": {
			objects: []client.Object{node, deleted(attachment("a", "here", nil, "d"), 6*time.Minute)},
			exists:  []string{"a"}, deleted: []string{"a"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(tc.objects...).Build()
			var lines []string
			logger := funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{})
			left, err := RunLostAttachments(log.IntoContext(t.Context(), logger), c, now)
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(lines, "\n"); got != tc.logged {
				t.Errorf("the log has %q, want %q", got, tc.logged)
			}
			list := &storagev1.VolumeAttachmentList{}
			if err := c.List(t.Context(), list); err != nil {
				t.Fatal(err)
			}
			var exists, deleted []string
			for _, a := range list.Items {
				exists = append(exists, a.Name)
				if a.DeletionTimestamp != nil {
					deleted = append(deleted, a.Name)
				}
			}
			want := [][]string{tc.left, tc.exists, tc.deleted}
			if diff := cmp.Diff(want, [][]string{left, exists, deleted}); diff != "" {
				t.Errorf("remaining, existing and in deletion (-want +got):\n%s", diff)
			}
		})
	}
}
