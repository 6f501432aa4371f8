package pki

import (
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Info is what a person needs to know of one certificate.
type Info struct {
	File      string    `json:"file"`
	Subject   string    `json:"subject"`
	Issuer    string    `json:"issuer"`
	Authority bool      `json:"authority"`
	Usages    []string  `json:"usages"`
	SANs      []string  `json:"sans"`
	Serial    string    `json:"serial"`
	NotBefore time.Time `json:"not_before"`
	NotAfter  time.Time `json:"not_after"`
	// Warning is empty, or says that the end is near or past.
	Warning string `json:"warning,omitempty"`
}

// Show describes the certificates of a PEM file, or of every .crt file of a
// folder in the order of their names. A folder without any is an error.
func (s Store) Show(path string) ([]Info, error) {
	stat, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("show: %w", err)
	}
	files := []string{path}
	if stat.IsDir() {
		entries, err := os.ReadDir(path)
		if err != nil {
			return nil, fmt.Errorf("show: %w", err)
		}
		files = nil
		for _, entry := range entries {
			if !entry.IsDir() && strings.HasSuffix(entry.Name(), ".crt") {
				files = append(files, filepath.Join(path, entry.Name()))
			}
		}
		if len(files) == 0 {
			return nil, errors.New("show " + path + ": found no .crt file")
		}
	}
	var infos []Info
	for _, file := range files {
		text, err := readFile(file)
		if err != nil {
			return nil, fmt.Errorf("show: %w", err)
		}
		certs, err := ParseCertificates(text)
		if err != nil {
			return nil, fmt.Errorf("show %s: %w", file, err)
		}
		for _, cert := range certs {
			infos = append(infos, describe(file, cert, s.now()))
		}
	}
	return infos, nil
}

func describe(file string, cert *x509.Certificate, now time.Time) Info {
	info := Info{
		File: file, Subject: cert.Subject.CommonName, Issuer: cert.Issuer.CommonName, Authority: cert.IsCA,
		Serial: fmt.Sprintf("%032x", cert.SerialNumber), NotBefore: cert.NotBefore.UTC(), NotAfter: cert.NotAfter.UTC(),
		Usages: []string{}, SANs: []string{},
	}
	for _, usage := range cert.ExtKeyUsage {
		switch usage {
		case x509.ExtKeyUsageServerAuth:
			info.Usages = append(info.Usages, "serverAuth")
		case x509.ExtKeyUsageClientAuth:
			info.Usages = append(info.Usages, "clientAuth")
		default:
			info.Usages = append(info.Usages, fmt.Sprintf("other(%d)", usage))
		}
	}
	for _, name := range cert.DNSNames {
		info.SANs = append(info.SANs, "DNS:"+name)
	}
	for _, ip := range cert.IPAddresses {
		info.SANs = append(info.SANs, "IP:"+ip.String())
	}
	for _, uri := range cert.URIs {
		info.SANs = append(info.SANs, "URI:"+uri.String())
	}
	remedy := "renew it with pki renew"
	if cert.IsCA {
		remedy = "rotate it with pki init --rotate"
	}
	switch left := cert.NotAfter.Sub(now); {
	case left <= 0:
		info.Warning = "expired; " + remedy
	case left < WarnBefore:
		info.Warning = fmt.Sprintf("ends in %s; %s", left.Round(time.Minute), remedy)
	case now.Before(cert.NotBefore):
		info.Warning = "not valid yet; check this machine's clock"
	}
	return info
}
