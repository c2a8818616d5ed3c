// Package version holds the version that a binary of Hortus was built as.
package version

// Version names the release, "dev" for a build from a work tree. The release build sets it with
// -ldflags "-X hortus.dev/hortus/internal/version.Version=v1.2.3". Image tags and status fields show it.
var Version = "dev"
