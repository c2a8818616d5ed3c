// Package architecture has no code: its tests keep the boundaries between packages that docs/architecture.md describes.
package architecture
