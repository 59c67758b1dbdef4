// Compressed payloads.

package delayq

import (
	"context"

	"github.com/klauspost/compress/zstd"
)

// restore decompresses a payload, fetching the dictionary if needed.
func (c *Client) restore(ctx context.Context, frame []byte) (payload []byte, err error) {
	var head zstd.Header
	_ = head.Decode(frame) // what is wrong with it is said below
	decoder, known := c.decoders.Load(head.DictionaryID)
	if !known {
		options := []zstd.DOption{zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxPayloadBytes)}
		if head.DictionaryID > 0 {
			reply, err := c.one(ctx, "dictionary", 0, head.DictionaryID, "")
			if err != nil {
				return nil, err
			}
			options = append(options, zstd.WithDecoderDicts([]byte(reply[0].(string))))
		}
		if decoder, err = zstd.NewReader(nil, options...); err == nil {
			c.decoders.Store(head.DictionaryID, decoder)
		}
	}
	if err == nil {
		payload, err = decoder.(*zstd.Decoder).DecodeAll(frame, nil)
	}
	if err != nil {
		return nil, InvalidMessage("the payload cannot be restored: " + err.Error())
	}
	return payload, nil
}

// shown decompresses the payload for display; on failure, the frame remains.
func (c *Client) shown(ctx context.Context, one *StoredMessage) *StoredMessage {
	if one.Compressed {
		if payload, err := c.restore(ctx, one.Payload); err == nil {
			one.Payload, one.Compressed = payload, false
		}
	}
	return one
}
