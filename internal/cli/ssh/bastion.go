package ssh

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1beta1 "hortus.dev/hortus/api/core/v1beta1"
	operationsv1alpha1 "hortus.dev/hortus/api/operations/v1alpha1"
)

const (
	// pollPeriod is how often the Bastion is read while it is awaited.
	pollPeriod = time.Second
	// silentFor is how long the command waits before it says for what.
	silentFor = 2 * time.Second
	// beatPeriod is far below the time after which a Bastion expires.
	beatPeriod = operationsv1alpha1.BastionTimeToLive / 6
	// deleteTimeout bounds the deletion at the end; the Bastion would expire anyway.
	deleteTimeout = 10 * time.Second
	sshPort       = "22"
)

// bastion is the Bastion of this session.
type bastion struct {
	*command
	object *operationsv1alpha1.Bastion
}

// createBastion creates a Bastion for the owner of a key.
func (c *command) createBastion(ctx context.Context, shoot, publicKey string) (*bastion, error) {
	cidrs := c.cidrs
	if len(cidrs) == 0 {
		own, err := ownAddress(c.config.Host)
		if err != nil {
			return nil, err
		}
		cidrs = []string{only(own)}
	}
	b := &bastion{command: c, object: &operationsv1alpha1.Bastion{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: randomName()},
		Spec: operationsv1alpha1.BastionSpec{
			ShootRef: corev1.LocalObjectReference{Name: shoot}, SSHPublicKey: strings.TrimSpace(publicKey),
			Ingress: policies(cidrs),
		},
	}}
	if err := c.garden.Create(ctx, b.object); err != nil {
		return nil, fmt.Errorf("create Bastion: %w", err)
	}
	return b, nil
}

func policies(cidrs []string) []operationsv1alpha1.BastionIngressPolicy {
	var out []operationsv1alpha1.BastionIngressPolicy
	for _, cidr := range cidrs {
		out = append(out, operationsv1alpha1.BastionIngressPolicy{IPBlock: networkingv1.IPBlock{CIDR: cidr}})
	}
	return out
}

// await waits until the Bastion takes connections from here, and returns its address.
func (b *bastion) await(ctx context.Context) (string, error) {
	limited, cancel := context.WithTimeout(ctx, b.timeout)
	defer cancel()
	if err := b.ready(limited); err != nil {
		return "", b.explain(ctx, err)
	}
	admitted, err := b.admit(limited)
	if err == nil && !admitted {
		err = b.ready(limited)
	}
	if err != nil {
		return "", b.explain(ctx, err)
	}
	return b.object.Status.Address(), nil
}

// explain says why a Bastion is not ready in time.
func (b *bastion) explain(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("the Bastion is not ready after %v (--timeout): %s", b.timeout, reason(b.object))
	}
	return err
}

// ready waits until the Bastion is ready, and prints what it waits for.
func (b *bastion) ready(ctx context.Context) error {
	start, said := b.clock.Now(), ""
	return wait.PollUntilContextCancel(ctx, pollPeriod, true, func(ctx context.Context) (bool, error) {
		if err := b.garden.Get(ctx, client.ObjectKeyFromObject(b.object), b.object); err != nil {
			return false, fmt.Errorf("read Bastion: %w", err)
		}
		if b.object.DeletionTimestamp != nil {
			return false, errors.New("the Bastion has been deleted")
		}
		if isReady(b.object) {
			return true, nil
		}
		if now := reason(b.object); now != said && b.clock.Since(start) >= silentFor {
			said = now
			fmt.Fprintf(b.out, "Waiting for Bastion %s: %s\n", b.object.Name, now)
		}
		return false, nil
	})
}

// isReady reports whether the newest version of a Bastion takes connections.
func isReady(object *operationsv1alpha1.Bastion) bool {
	c := corev1beta1.FindCondition(object.Status.Conditions, operationsv1alpha1.BastionReady)
	observed := object.Status.ObservedGeneration
	return c != nil && c.Status == corev1beta1.ConditionTrue && object.Status.Address() != "" &&
		observed != nil && *observed == object.Generation
}

func reason(object *operationsv1alpha1.Bastion) string {
	c := corev1beta1.FindCondition(object.Status.Conditions, operationsv1alpha1.BastionReady)
	if c == nil || c.Status == corev1beta1.ConditionTrue {
		return "the gardenlet has not acted on it yet"
	}
	return c.Message
}

// admit adds the address from which this machine reaches the Bastion to those that can connect, unless the user has
// named them. It reports whether the Bastion stays as it is.
func (b *bastion) admit(ctx context.Context) (unchanged bool, err error) {
	if len(b.cidrs) > 0 {
		return true, nil
	}
	own, err := sourceFor(net.JoinHostPort(b.object.Status.Address(), sshPort))
	if err != nil {
		return false, err
	}
	cidr := only(own)
	if slices.ContainsFunc(b.object.Spec.Ingress, func(p operationsv1alpha1.BastionIngressPolicy) bool {
		return p.IPBlock.CIDR == cidr
	}) {
		return true, nil
	}
	before := b.object.DeepCopy()
	b.object.Spec.Ingress = append(b.object.Spec.Ingress, policies([]string{cidr})...)
	if err := b.garden.Patch(ctx, b.object, client.MergeFrom(before)); err != nil {
		return false, fmt.Errorf("let %s connect to the Bastion: %w", cidr, err)
	}
	return false, nil
}

// keepAlive keeps the Bastion alive until the context ends.
func (b *bastion) keepAlive(ctx context.Context) {
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, corev1beta1.AnnotationOperation,
		corev1beta1.OperationKeepalive)
	ticker := b.clock.NewTicker(beatPeriod)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
			object := &operationsv1alpha1.Bastion{ObjectMeta: metav1.ObjectMeta{
				Namespace: b.object.Namespace, Name: b.object.Name,
			}}
			// The next one may succeed: the Bastion outlives several.
			_ = b.garden.Patch(ctx, object, client.RawPatch(types.MergePatchType, patch))
		}
	}
}

// delete deletes the Bastion. The gardenlet removes its machine.
func (b *bastion) delete(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, deleteTimeout)
	defer cancel()
	if err := b.garden.Delete(ctx, b.object); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete Bastion %s/%s, which expires in an hour: %w", b.object.Namespace, b.object.Name, err)
	}
	return nil
}

// ownAddress is the address of this machine from which a server is reached. If that address is not global, it is the
// first global address of an interface.
func ownAddress(server string) (netip.Addr, error) {
	if u, err := url.Parse(server); err == nil && u.Host != "" {
		port := u.Port()
		if port == "" {
			port = "443"
		}
		if own, err := sourceFor(net.JoinHostPort(u.Hostname(), port)); err == nil && own.IsGlobalUnicast() {
			return own, nil
		}
	}
	all, err := net.InterfaceAddrs()
	if err != nil {
		return netip.Addr{}, fmt.Errorf("find the address of this machine: %w", err)
	}
	for _, one := range all {
		if prefix, err := netip.ParsePrefix(one.String()); err == nil && prefix.Addr().IsGlobalUnicast() {
			return prefix.Addr(), nil
		}
	}
	return netip.Addr{}, errors.New("this machine has no address that the Bastion could see. Give --cidr")
}

// sourceFor is the address from which this machine connects to another one. No packet is sent.
func sourceFor(address string) (netip.Addr, error) {
	conn, err := net.Dial("udp", address)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("find the address of this machine: %w", err)
	}
	defer conn.Close()
	own, err := netip.ParseAddrPort(conn.LocalAddr().String())
	if err != nil {
		return netip.Addr{}, fmt.Errorf("find the address of this machine: %w", err)
	}
	return own.Addr().Unmap().WithZone(""), nil
}

// only is the prefix of one address.
func only(address netip.Addr) string { return netip.PrefixFrom(address, address.BitLen()).String() }
