// Package proxyprotocol reads the PROXY headers that connections of HAProxy begin with.
package proxyprotocol

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Listener accepts connections that begin with a PROXY protocol header, version 1 or 2, and are from whom it says.
type Listener struct{ net.Listener }

// Accept leaves the header to the first who wants to know something of the connection, so that a client that sends none
// keeps nobody else waiting.
func (l Listener) Accept() (net.Conn, error) {
	accepted, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &connection{Conn: accepted, reader: bufio.NewReader(accepted)}
	c.header = sync.OnceValues(c.readHeader)
	return c, nil
}

type connection struct {
	net.Conn
	reader *bufio.Reader
	header func() (net.Addr, error)
}

func (c *connection) Read(p []byte) (int, error) {
	if _, err := c.header(); err != nil {
		return 0, err
	}
	return c.reader.Read(p)
}

// RemoteAddr is who the header says the connection is from.
func (c *connection) RemoteAddr() net.Addr {
	address, err := c.header()
	if err != nil || address == nil {
		return c.Conn.RemoteAddr()
	}
	return address
}

// readHeader returns nil if the proxy speaks for itself.
func (c *connection) readHeader() (net.Addr, error) {
	if err := c.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return nil, err
	}
	address, err := readAny(c.reader)
	return address, errors.Join(err, c.SetReadDeadline(time.Time{}))
}

const signatureV2 = "\r\n\r\n\x00\r\nQUIT\n"

func readAny(r *bufio.Reader) (net.Addr, error) {
	begin, err := r.Peek(len(signatureV2))
	if err != nil {
		return nil, err
	}
	if string(begin) == signatureV2 {
		return readV2(r)
	}
	// The line has at most 107 bytes, so it is in the reader's buffer or is none.
	line, err := r.ReadSlice('\n')
	if err != nil {
		return nil, err
	}
	fields := strings.Fields(string(line))
	if len(fields) < 2 || fields[0] != "PROXY" {
		return nil, fmt.Errorf("no PROXY protocol header: %q", line)
	}
	if len(fields) != 6 {
		return nil, nil
	}
	port, err := strconv.ParseUint(fields[4], 10, 16)
	if err != nil {
		return nil, err
	}
	ip, err := netip.ParseAddr(fields[2])
	return net.TCPAddrFromAddrPort(netip.AddrPortFrom(ip, uint16(port))), err
}

func readV2(r *bufio.Reader) (net.Addr, error) {
	header, err := ReadV2(r)
	if err != nil || !header.Source.IsValid() {
		return nil, err
	}
	return net.TCPAddrFromAddrPort(header.Source), nil
}

// Header is a header of version 2.
type Header struct {
	// Source and Destination are those of a TCP connection. They are not valid if the proxy speaks for itself.
	Source, Destination netip.AddrPort
	TLVs                []TLV
}

// TLV is what a header may tell besides.
type TLV struct {
	Type  byte
	Value string
}

// ReadV2 reads a header of version 2.
func ReadV2(r io.Reader) (h Header, err error) {
	head := make([]byte, len(signatureV2)+4)
	if _, err := io.ReadFull(r, head); err != nil {
		return h, err
	}
	if string(head[:len(signatureV2)]) != signatureV2 {
		return h, fmt.Errorf("no PROXY protocol header: %q", head)
	}
	command, family := head[12], head[13]
	body := make([]byte, binary.BigEndian.Uint16(head[14:]))
	if _, err := io.ReadFull(r, body); err != nil {
		return h, err
	}
	size := map[byte]int{0x11: 4, 0x21: 16}[family]
	if size > 0 && len(body) >= 2*size+4 {
		if command == 0x21 {
			h.Source, h.Destination = addrPort(body[:size], body[2*size:]), addrPort(body[size:2*size], body[2*size+2:])
		}
		body = body[2*size+4:]
	}
	for len(body) > 0 {
		if len(body) < 3 || len(body)-3 < int(binary.BigEndian.Uint16(body[1:])) {
			return h, errors.New("a PROXY protocol header whose TLVs are cut")
		}
		end := 3 + int(binary.BigEndian.Uint16(body[1:]))
		h.TLVs = append(h.TLVs, TLV{body[0], string(body[3:end])})
		body = body[end:]
	}
	return h, nil
}

func addrPort(ip, port []byte) netip.AddrPort {
	address, _ := netip.AddrFromSlice(ip)
	return netip.AddrPortFrom(address, binary.BigEndian.Uint16(port))
}

// V1 returns the header of version 1, and V2 that of version 2 without TLVs.
func (h Header) V1() []byte {
	if !h.Source.IsValid() {
		return []byte("PROXY UNKNOWN\r\n")
	}
	family := "TCP6"
	if h.Source.Addr().Is4() {
		family = "TCP4"
	}
	return fmt.Appendf(nil, "PROXY %s %s %s %d %d\r\n", family, h.Source.Addr(), h.Destination.Addr(), h.Source.Port(), h.Destination.Port())
}

// V2 is V1 for version 2.
func (h Header) V2() []byte {
	if !h.Source.IsValid() {
		return append([]byte(signatureV2), 0x20, 0, 0, 0)
	}
	family := byte(0x21)
	if h.Source.Addr().Is4() {
		family = 0x11
	}
	addresses := append(h.Source.Addr().AsSlice(), h.Destination.Addr().AsSlice()...)
	b := append([]byte(signatureV2), 0x21, family)
	b = append(binary.BigEndian.AppendUint16(b, uint16(len(addresses)+4)), addresses...)
	return binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(b, h.Source.Port()), h.Destination.Port())
}
