"""Compressed payloads."""

from typing import Any

from .calls import Calls
from .envelope import Stored
from .protocol import MAX_PAYLOAD_BYTES


class Restoring(Calls):
    """Decodes messages and decompresses payloads."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._dictionaries: dict[int, bytes] = {}

    async def _read(self, message: Stored, stored: bytes) -> None:
        """Decodes an envelope. Raises a ValueError for an invalid envelope, and an ImportError without the decompressor."""
        if message.read(stored):
            message.payload = await self._restored(message.payload)

    async def _shown(self, message: Stored, stored: bytes) -> Stored:
        """Decodes an envelope for display. An invalid envelope sets the reason, so that a listing continues."""
        try:
            await self._read(message, stored)
        except (ValueError, ImportError) as fault:
            message.reason = str(fault)
        return message

    async def _restored(self, frame: bytes) -> bytes:
        import zstandard  # brought by the extra `zstd`: only topics with a codec need it

        try:
            frame_says = zstandard.get_frame_parameters(frame)
            if MAX_PAYLOAD_BYTES < frame_says.content_size != zstandard.CONTENTSIZE_UNKNOWN:
                raise ValueError(f"no payload has {frame_says.content_size} bytes")
            if frame_says.dict_id and frame_says.dict_id not in self._dictionaries:
                self._dictionaries[frame_says.dict_id] = await self._call("dictionary", 0, [frame_says.dict_id, ""])
            dictionary = zstandard.ZstdCompressionDict(self._dictionaries.get(frame_says.dict_id, b""))
            return zstandard.ZstdDecompressor(dictionary).decompress(frame, max_output_size=MAX_PAYLOAD_BYTES)
        except zstandard.ZstdError as fault:
            raise ValueError(f"the payload cannot be restored: {fault}") from None
