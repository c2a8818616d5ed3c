// Package charts carries the Helm charts of Hortus inside the binary, so that the landscape installs what production
// does.
package charts

import "embed"

// FS holds one folder per chart.
//
//go:embed all:garden all:gardenlet all:provider-local all:seed-support
var FS embed.FS
