// Package claim has the text form of a claim.
package claim

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Claim is the content of a claim: see redlock.Claim.
type Claim struct {
	Names []string
	Token string
	Fence int64
	TTL   time.Duration
}

// prefix identifies the version of the text form.
const prefix = "redlock1."

// text is the content of the text form, in JSON. Names are any bytes, which a JSON string cannot
// represent.
type text struct {
	Names [][]byte      `json:"n"`
	Token []byte        `json:"t"`
	Fence int64         `json:"f,omitempty"`
	TTL   time.Duration `json:"d"`
}

// Text returns the text form, without spaces.
func (c Claim) Text() ([]byte, error) {
	t := text{Token: []byte(c.Token), Fence: c.Fence, TTL: c.TTL}
	for _, n := range c.Names {
		t.Names = append(t.Names, []byte(n))
	}
	b, err := json.Marshal(t)
	if err != nil {
		return nil, err
	}
	return append([]byte(prefix), base64.RawURLEncoding.EncodeToString(b)...), nil
}

// errDamaged is the error of a form that cannot be parsed. It shows nothing of the form, which
// contains a token.
var errDamaged = errors.New("damaged claim")

// ParseText parses the text form.
func ParseText(form []byte) (Claim, error) {
	b, ok := strings.CutPrefix(string(form), prefix)
	if !ok {
		return Claim{}, fmt.Errorf("a claim begins with %q", prefix)
	}
	raw, err := base64.RawURLEncoding.DecodeString(b)
	if err != nil {
		return Claim{}, errDamaged
	}
	var t text
	if err := json.Unmarshal(raw, &t); err != nil {
		return Claim{}, errDamaged
	}
	c := Claim{Token: string(t.Token), Fence: t.Fence, TTL: t.TTL}
	for _, n := range t.Names {
		c.Names = append(c.Names, string(n))
	}
	return c, nil
}
