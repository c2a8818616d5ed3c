// Package keeper takes, checks and deletes the backups of an etcd member, as configured by the flags of a command.
package keeper
