// Package store keeps backup objects in an object store: S3, Google Cloud Storage, Azure Blob Storage or a folder.
//
// Credentials are a folder of files, as a mounted Secret. A Store reads them again when they change, so that keys can
// be rotated without a restart. Errors are of type Error: they name the operation, the location and the next step, and
// contain no secret. Claims of epochs are written so that of two writers only one succeeds.
package store
