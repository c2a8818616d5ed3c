// Package manifest reads manifests for commands: from files, folders and standard input, with the same rules for all.
//
// Read finds the files, splits them into Objects and hands each to a function, side by side on all processors. Files
// hold YAML documents, JSON values one after the other, and Lists of either, which may contain Lists. Decode turns
// an Object into a typed one with the API server's rules: case counts, unknown and repeated fields are problems, and
// all values that a type cannot hold are reported, not only the first.
//
// A Problem knows its field and, where the text tells, its line. A Finding is a Problem with the manifest that has it;
// Errors are the findings that make a command fail. What the objects mean is up to packages fleet and validate.
package manifest
