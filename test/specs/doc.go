// Package specs reads the results of Kubernetes' own end-to-end tests, its specs, from the report of the program
// ginkgo, and keeps the results of the conformance tests in the documents.
//
// [Read] parses a report, [Summary] summarizes a run for people, and [Record] adds the results of a run to those of
// earlier ones and writes the page ([Page]) that shows them.
package specs
