// Package verify restores backups as a test, in little memory and with one database file on disk.
package verify
