// Package manifest reads manifests for commands: from files, directories and standard input, with the same rules for
// all.
//
// Read finds the files, splits them into Objects and passes each to a function, concurrently on all processors. Files
// contain YAML documents, consecutive JSON values, and Lists of either, which may contain Lists. Decode decodes an
// Object into a typed one with the API server's rules: names are case-sensitive, unknown and duplicate fields are
// problems, and all values of the wrong type are reported, not only the first.
//
// A Problem has a field and, if known, a line. A Finding is a Problem with its manifest; Errors are the findings that
// make a command fail. Packages fleet and validate interpret the objects.
package manifest
