// Package image knows the name of every container image the project uses, and packs the ones it can build into one OCI
// image layout.
//
// The names are those of the public images where such exist, so manifests are the same with and without a local build.
// [Build] writes layers straight into the layout: uncompressed, with fixed times and owners, so equal input gives equal
// digests, images that share files share layers, and an unchanged image costs nothing.
package image
