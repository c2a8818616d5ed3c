// Package kubescheduler renders the kube-scheduler of one Shoot.
package kubescheduler
