// Package kubecontrollermanager renders the kube-controller-manager of one Shoot.
package kubecontrollermanager
