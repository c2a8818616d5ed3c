package worker

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/intstr"
)

// spread returns the share of one zone, counted from 0, of a number that is spread over zones: the first ones get one
// more if it does not divide.
func spread(total int32, zone, zones int) int32 {
	if zones <= 1 {
		return total
	}
	share, rest := total/int32(zones), total%int32(zones)
	if int32(zone) < rest {
		share++
	}
	return share
}

// spreadIntOrPercent returns the share of one zone of a number or percentage. A number is spread like machines. A
// percentage stays as it is if the zones are of equal size; otherwise it follows the size of the zone, rounded up, so
// that the zones together allow at least the requested number.
func spreadIntOrPercent(value intstr.IntOrString, zone, zones int, total int32) (intstr.IntOrString, error) {
	if value.Type == intstr.Int {
		return intstr.FromInt32(spread(value.IntVal, zone, zones)), nil
	}
	percent, err := strconv.ParseFloat(strings.TrimSuffix(value.StrVal, "%"), 64)
	if err != nil || !strings.HasSuffix(value.StrVal, "%") {
		return intstr.IntOrString{}, fmt.Errorf("%q is neither a number nor a percentage", value.StrVal)
	}
	if zones <= 1 || total%int32(zones) == 0 {
		return value, nil
	}
	average := float64(total) / float64(zones)
	scaled := math.Ceil(percent * float64(spread(total, zone, zones)) / average)
	return intstr.FromString(strconv.Itoa(int(scaled)) + "%"), nil
}
