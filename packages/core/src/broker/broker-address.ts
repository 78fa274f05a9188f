import type { BrokerAddress } from './source.ts'

const hostAndPort = /^\[?([^\s@/?#[\]]+)\]?:(\d{1,5})$/

/** Parses `host:port`, as many clients name the server that they are connected to. Anything else is no address, such as a URL, which may have a password. */
export function parseAddress(text: string | undefined): Pick<BrokerAddress, 'serverAddress' | 'serverPort'> {
  const [, serverAddress, digits] = hostAndPort.exec(text ?? '') ?? []
  const serverPort = Number(digits)
  return serverPort >= 1 && serverPort <= 65_535 ? { serverAddress, serverPort } : {}
}
