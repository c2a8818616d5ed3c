package csr

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	machinev1alpha1 "github.com/gardener/machine-controller-manager/pkg/apis/machine/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// maxConfirmed bounds how many objects of a kind, found in the cache, are read directly for one decision. A kubelet
// that requests what is its own has one or two; for one that lists the names of all nodes the others are taken from the
// cache.
const maxConfirmed = 10

// view is what a decision is read from. There is one of the caches, and one that reads directly what the decision rests
// on: the cost of a decision does not depend on the size of the Shoot.
type view struct {
	target   client.Reader // For the Node that the request is for.
	machines func(context.Context, subject) ([]machinev1alpha1.Machine, error)
	nodes    func(context.Context, subject) ([]corev1.Node, error)
}

// cachedMachines returns the machines in the cache that a request may be about. They are the cache's own: not to be
// changed.
func (r *Reconciler) cachedMachines(ctx context.Context, about subject) ([]machinev1alpha1.Machine, error) {
	list := &machinev1alpha1.MachineList{}
	if err := r.Machines.List(ctx, list, client.InNamespace(r.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list machines in the cache: %w", err)
	}
	var out []machinev1alpha1.Machine
	for i := range list.Items {
		if about.concerns(machineOf(&list.Items[i])) {
			out = append(out, list.Items[i])
		}
	}
	return out, nil
}

// directMachines reads the machines that a request may be about: by name and by node, and those that the cache has
// found by token, name and address. A machine that the cache does not have yet is like one that is reported after the
// decision.
func (r *Reconciler) directMachines(ctx context.Context, about subject) ([]machinev1alpha1.Machine, error) {
	var out []machinev1alpha1.Machine
	for _, node := range about.nodes {
		list := &machinev1alpha1.MachineList{}
		has := client.MatchingLabels{machinev1alpha1.NodeLabelKey: node}
		if err := r.Source.List(ctx, list, client.InNamespace(r.Namespace), has); err != nil {
			return nil, fmt.Errorf("list machines of node %q: %w", node, err)
		}
		out = append(out, list.Items...)
	}
	found, err := r.cachedMachines(ctx, about)
	if err != nil {
		return nil, err
	}
	read := func(name string) (*machinev1alpha1.Machine, error) {
		m := &machinev1alpha1.Machine{}
		if err := r.Source.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: name}, m); err != nil {
			if apierrors.IsNotFound(err) {
				return nil, nil
			}
			return nil, fmt.Errorf("read machine %q: %w", name, err)
		}
		return m, nil
	}
	has := func(name string) bool {
		return slices.ContainsFunc(out, func(m machinev1alpha1.Machine) bool { return m.Name == name })
	}
	if about.machine != "" && !has(about.machine) {
		m, err := read(about.machine)
		if err != nil {
			return nil, err
		}
		if m != nil {
			out = append(out, *m)
		}
	}
	found = slices.DeleteFunc(found,
		func(m machinev1alpha1.Machine) bool { return has(m.Name) || m.Name == about.machine })
	found, err = confirm(found, func(m *machinev1alpha1.Machine) (*machinev1alpha1.Machine, error) { return read(m.Name) })
	return append(out, found...), err
}

// confirm replaces the first objects from a cache by what is read directly, and leaves out those that are gone.
func confirm[T any](found []T, read func(*T) (*T, error)) ([]T, error) {
	var out []T
	for i := range found {
		if i >= maxConfirmed {
			return append(out, found[i:]...), nil
		}
		o, err := read(&found[i])
		if err != nil {
			return nil, err
		}
		if o != nil {
			out = append(out, *o)
		}
	}
	return out, nil
}

// allMachines reads all machines, for what only the absence of a machine shows. Few requests come to this: only those
// with a bootstrap token, which is good until its machine has joined.
func (r *Reconciler) allMachines(ctx context.Context, _ subject) ([]machinev1alpha1.Machine, error) {
	list := &machinev1alpha1.MachineList{}
	if err := r.Source.List(ctx, list, client.InNamespace(r.Namespace)); err != nil {
		return nil, fmt.Errorf("list machines: %w", err)
	}
	return list.Items, nil
}

// cachedNodes returns the Nodes in the cache that have a name or an address in the request. They belong to the cache
// and must not be changed.
func (r *Reconciler) cachedNodes(ctx context.Context, about subject) ([]corev1.Node, error) {
	list := &corev1.NodeList{}
	if err := r.Target.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list nodes in the cache: %w", err)
	}
	return slices.DeleteFunc(list.Items, func(n corev1.Node) bool { return !about.concernsNode(&n) }), nil
}

// directNodes reads the Nodes that the cache has found. One that it does not have yet is like one that joins after the
// decision.
func (r *Reconciler) directNodes(ctx context.Context, about subject) ([]corev1.Node, error) {
	found, err := r.cachedNodes(ctx, about)
	if err != nil {
		return nil, err
	}
	// The Node that the request is for may have these names and addresses.
	found = slices.DeleteFunc(found, func(n corev1.Node) bool { return slices.Contains(about.nodes, n.Name) })
	return confirm(found, func(n *corev1.Node) (*corev1.Node, error) { return node(ctx, r.TargetReader, n.Name) })
}

// node returns the Node of a name, nil if there is none.
func node(ctx context.Context, from client.Reader, name string) (*corev1.Node, error) {
	node := &corev1.Node{}
	if err := from.Get(ctx, client.ObjectKey{Name: name}, node); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("read node %q: %w", name, err)
	}
	return node, nil
}

func machineOf(m *machinev1alpha1.Machine) machine {
	out := machine{name: m.Name, node: m.Labels[machinev1alpha1.NodeLabelKey]}
	for _, a := range m.Status.Addresses {
		address, err := netip.ParseAddr(a.Address)
		if err == nil {
			out.addresses = append(out.addresses, address.Unmap())
		} else {
			out.dnsNames = append(out.dnsNames, a.Address)
		}
	}
	return out
}

// canBeMachine and canBeLabel report whether there can be a machine of a name, or one with the label of a node.
// Requesters may write any name; an API server rejects reads of invalid names with an error.
func canBeMachine(name string) bool { return len(validation.IsDNS1123Subdomain(name)) == 0 }

func canBeLabel(node string) bool { return node != "" && len(validation.IsValidLabelValue(node)) == 0 }
