package test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	"hortus.dev/hortus/internal/secretsmanager"
)

// writes calls a function for every write of the gardenlet, which makes the write or does not.
func (w *world) writes(around func(write func() error) error) {
	w.t.Helper()
	direct, err := client.NewWithWatch(w.Config, client.Options{Scheme: w.Scheme, Mapper: w.Client.RESTMapper()})
	w.must(err)
	c := interceptor.NewClient(direct, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			return around(func() error { return c.Create(ctx, o, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			return around(func() error { return c.Delete(ctx, o, opts...) })
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			return around(func() error { return c.Update(ctx, o, opts...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch,
			opts ...client.PatchOption) error {
			return around(func() error { return c.Patch(ctx, o, p, opts...) })
		},
		Apply: func(ctx context.Context, c client.WithWatch, o runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
			return around(func() error { return c.Apply(ctx, o, opts...) })
		},
		SubResourcePatch: func(
			ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch,
			opts ...client.SubResourcePatchOption,
		) error {
			return around(func() error { return c.SubResource(sub).Patch(ctx, o, p, opts...) })
		},
	})
	w.r.Garden, w.r.Seed = c, c
}

// undisturbed undoes writes.
func (w *world) undisturbed() { w.r.Garden, w.r.Seed = w.gardenlet, w.Client }

// request adds an operation to the annotation, as a user would.
func (w *world) request(s *corev1beta1.Shoot, operation string) *corev1beta1.Shoot {
	w.t.Helper()
	s = w.latest(s)
	before := s.DeepCopy()
	if s.Annotations == nil {
		s.Annotations = map[string]string{}
	}
	if present := s.Annotations[corev1beta1.AnnotationOperation]; present != "" {
		operation = present + corev1beta1.OperationSeparator + operation
	}
	s.Annotations[corev1beta1.AnnotationOperation] = operation
	w.must(w.Client.Patch(w.ctx, s, client.MergeFrom(before)))
	return s
}

// changeSpec makes an insignificant change.
func (w *world) changeSpec(s *corev1beta1.Shoot) *corev1beta1.Shoot {
	w.t.Helper()
	s = w.latest(s)
	before := s.DeepCopy()
	if s.Spec.Purpose == nil || *s.Spec.Purpose == corev1beta1.ShootPurposeEvaluation {
		s.Spec.Purpose = ptr.To(corev1beta1.ShootPurposeDevelopment)
	} else {
		s.Spec.Purpose = ptr.To(corev1beta1.ShootPurposeEvaluation)
	}
	w.must(w.Client.Patch(w.ctx, s, client.MergeFrom(before)))
	return s
}

func (w *world) latest(s *corev1beta1.Shoot) *corev1beta1.Shoot {
	w.t.Helper()
	out := &corev1beta1.Shoot{}
	w.must(w.Client.Get(w.ctx, client.ObjectKeyFromObject(s), out))
	return out
}

// generated are the Secrets that the gardenlet has generated for a credential, without bundles.
func (w *world) generated(s *corev1beta1.Shoot, name string) map[string]bool {
	w.t.Helper()
	list := &corev1.SecretList{}
	w.must(w.Client.List(w.ctx, list, client.InNamespace(s.Status.TechnicalID), client.MatchingLabels{
		secretsmanager.LabelManagedBy: secretsmanager.ManagedBy, secretsmanager.LabelName: name,
	}))
	out := map[string]bool{}
	for i := range list.Items {
		out[list.Items[i].Name] = true
	}
	return out
}

// settled runs until no operation of the Shoot is pending.
func (w *world) settled(s *corev1beta1.Shoot) *corev1beta1.Shoot {
	w.t.Helper()
	s = w.run(s, succeeded)
	return w.run(s, succeeded)
}

// startWrites are the two writes that record a start, and the first one of the flow.
const startWrites = 3

// Whichever write is the last one of a process, and even if the spec changes before the next process starts, a rotation
// begins once, and the old credentials stay until it is completed. The same applies to the completion.
func TestRotationBeginsOnceWhateverWriteIsTheLast(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for n := range startWrites {
		for _, happens := range []bool{false, true} {
			t.Run(fmt.Sprintf("stop at write %d, done %t", n, happens), func(t *testing.T) {
				s := w.settled(w.newShoot())
				first := w.generated(s, "ca")
				stopsAtWrite := func(n int, happens bool) {
					w.writes(func(write func() error) error {
						switch n--; {
						case n >= 0:
							return write()
						case n == -1 && happens:
							return errors.Join(write(), errStopped)
						}
						return errStopped // The process has stopped.
					})
				}
				var initiated, observed time.Time
				note := func() {
					c := w.latest(s).Status.Credentials
					if c == nil || c.Rotation == nil || c.Rotation.CertificateAuthorities == nil {
						return
					}
					for had, got := range map[*time.Time]time.Time{
						&initiated: c.Rotation.CertificateAuthorities.LastInitiationTime.Time,
						&observed:  c.Rotation.Observability.LastInitiationTime.Time,
					} {
						if !had.IsZero() && !had.Equal(got) {
							t.Errorf("a rotation that was initiated at %s begins again at %s", had, got)
						}
						*had = got
					}
				}
				stopped := func() {
					t.Helper()
					stopsAtWrite(n, happens)
					if _, err := w.step(s); !errors.Is(err, errStopped) {
						t.Logf("the process was not stopped: %v", err)
					}
					note()
					w.undisturbed()
					w.changeSpec(s)
					s = w.settled(s)
					note()
				}

				s = w.request(s, corev1beta1.OperationRotateCredentialsStart)
				stopped()
				r := s.Status.Credentials.Rotation
				if r.CertificateAuthorities.Phase != corev1beta1.RotationPrepared || r.Observability.LastCompletionTime == nil {
					t.Errorf("rotation = %+v, want it Prepared", r)
				}
				if left := s.Annotations[corev1beta1.AnnotationOperation]; left != "" {
					t.Errorf("the annotation still requests %q", left)
				}
				both := w.generated(s, "ca")
				for name := range first {
					if !both[name] {
						t.Errorf("Secret %s is gone although the rotation is not completed", name)
					}
				}
				if len(both) != 2 {
					t.Errorf("CAs %v, want the old one and the new one", both)
				}

				s = w.request(s, corev1beta1.OperationRotateCredentialsComplete)
				stopped()
				if p := s.Status.Credentials.Rotation.CertificateAuthorities.Phase; p != corev1beta1.RotationCompleted {
					t.Errorf("phase = %s, want Completed", p)
				}
				if last := w.generated(s, "ca"); len(last) != 1 || first[firstOf(last)] || !both[firstOf(last)] {
					t.Errorf("CAs %v, want only the new one of %v", last, both)
				}
				s = w.settled(w.changeSpec(s))
				note()
				w.delete(s)
				w.run(s, gone)
			})
		}
	}
}

func firstOf(names map[string]bool) string {
	for name := range names {
		return name
	}
	return ""
}

// An operation that a user adds while another one is being started is not lost, and does not start the other one again.
func TestOperationAddedMeanwhileStarts(t *testing.T) {
	t.Parallel()
	for name, after := range map[string]bool{"before the start is written": false, "after the start is written": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			s := w.settled(w.newShoot())
			s = w.request(s, corev1beta1.OperationRotateCAStart)
			added := false
			add := func() {
				if !added {
					added = true
					w.request(s, corev1beta1.OperationRotateObservabilityCredentials)
				}
			}
			wrote := 0
			w.writes(func(write func() error) error {
				if wrote++; wrote != 2 { // The first write is that of the Cluster.
					return write()
				}
				if after {
					defer add()
				} else {
					add()
				}
				return write()
			})
			s = w.settled(s)
			w.undisturbed()
			s = w.settled(s)
			r := s.Status.Credentials.Rotation
			if !added || r.CertificateAuthorities == nil || r.Observability == nil {
				t.Fatalf("rotations = %+v, want both, added %t", r, added)
			}
			if cas := w.generated(s, "ca"); len(cas) != 2 || r.CertificateAuthorities.Phase != corev1beta1.RotationPrepared {
				t.Errorf("rotation = %+v, CAs = %v, want one that is Prepared", r.CertificateAuthorities, cas)
			}
			if left := s.Annotations[corev1beta1.AnnotationOperation]; left != "" {
				t.Errorf("the annotation still requests %q", left)
			}
		})
	}
}
