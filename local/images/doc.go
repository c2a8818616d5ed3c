// Package images packs the container images that the project uses into one OCI image layout.
//
// [Build] writes layers straight into the layout: uncompressed, with fixed times and owners, so equal input gives equal
// digests, images that share files share layers, and an unchanged image costs nothing.
package images
