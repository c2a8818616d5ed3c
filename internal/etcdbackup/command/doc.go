// Package command has the commands of `hortus etcd-backup`: run, restore, list, verify and status.
package command
