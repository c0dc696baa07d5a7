"""What the fault tests disturb a connection with."""

from tests.faultkit.proxy import Direction, TcpProxy

__all__ = ["Direction", "TcpProxy"]
