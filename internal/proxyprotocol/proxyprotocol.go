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
	head := make([]byte, len(signatureV2)+4)
	if _, err := io.ReadFull(r, head); err != nil {
		return nil, err
	}
	command, family := head[12], head[13]
	body := make([]byte, binary.BigEndian.Uint16(head[14:]))
	if _, err := io.ReadFull(r, body); err != nil {
		return nil, err
	}
	size := map[byte]int{0x11: 4, 0x21: 16}[family]
	if command != 0x21 || size == 0 || len(body) < 2*size+4 {
		return nil, nil
	}
	ip, _ := netip.AddrFromSlice(body[:size])
	return net.TCPAddrFromAddrPort(netip.AddrPortFrom(ip, binary.BigEndian.Uint16(body[2*size:]))), nil
}
