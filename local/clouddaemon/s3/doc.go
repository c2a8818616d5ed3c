// Package s3 implements the parts of the S3 protocol that the cloud needs besides its library, which routes requests
// and writes answers:
//
//	operation.go   which operation a request is, and on what: the name that faults and permissions refer to
//	body.go        request bodies: framing, lengths and checksums as current clients send them
//	etag.go        entity tags of objects that were uploaded in parts
//	errors.go      error documents
//
// Nothing here knows the cloud's store; package clouddaemon puts the parts together.
package s3
