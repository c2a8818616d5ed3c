// Package release builds what is published of a version: programs for each platform, one image for all platforms, the
// Helm charts with this image, a software bill of materials, notes, and checksums.
//
// The same commit results in the same bytes on every machine with the same version of Go.
package release
