// Package maintain keeps etcd's database file from filling up, without an operator: it defragments when much of the
// file is unused, and resolves NOSPACE alarms.
package maintain
