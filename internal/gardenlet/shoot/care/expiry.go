package care

import (
	"fmt"
	"time"
)

const (
	// certificateWarning is how long before their end certificates of a control plane are warned of. Reconciliations
	// replace them 73 days before; a Shoot that has failed is tried again every 30 days, so one more attempt begins after
	// the warning.
	certificateWarning = 30 * 24 * time.Hour
	// reasonCertificateExpires is of APIServerAvailable, which stays True: the API server works until the end.
	reasonCertificateExpires = "CertificateExpiresSoon"
)

// expiry is the finding if one of the certificates ends soon by which the gardenlet and the API server know each other.
// The others of the control plane are of about the same age. Its message changes once a day.
func expiry(o *Observed) (Finding, bool) {
	whose, end := "API server", o.ServerUntil
	if end.IsZero() || !o.ClientUntil.IsZero() && o.ClientUntil.Before(end) {
		whose, end = "gardenlet for the API server", o.ClientUntil
	}
	left := end.Sub(o.Now)
	if end.IsZero() || left > certificateWarning {
		return Finding{}, false
	}
	return good(reasonCertificateExpires, fmt.Sprintf(
		"API server /healthz endpoint responded with success status code. The certificate of the %s expires in %d days, on %s. "+
			"A reconciliation replaces the certificates of the control plane; without one it stops working then.",
		whose, int(left/(24*time.Hour)), end.UTC().Format(time.DateOnly))), true
}
