import { generateKeyPairSync, sign } from 'node:crypto'

/** A self-signed certificate for `localhost` and its key, as PEM. */
export function selfSignedCertificate(): { readonly certificate: string; readonly key: string } {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const algorithm = der(0x30, Buffer.from('06082a8648ce3d040302', 'hex')) // ecdsa-with-SHA256
  const commonName = der(0x30, Buffer.from('0603550403', 'hex'), der(0x0c, Buffer.from('localhost')))
  const name = der(0x30, der(0x31, commonName))
  const validity = der(0x30, der(0x17, Buffer.from('200101000000Z')), der(0x17, Buffer.from('491231235959Z')))
  const serial = der(0x02, Buffer.from([1]))
  const content = der(0x30, serial, algorithm, name, validity, name, publicKey.export({ type: 'spki', format: 'der' }))
  const signature = der(0x03, Buffer.from([0]), sign('sha256', content, privateKey))
  const lines =
    der(0x30, content, algorithm, signature)
      .toString('base64')
      .match(/.{1,64}/g) ?? []
  return {
    certificate: ['-----BEGIN CERTIFICATE-----', ...lines, '-----END CERTIFICATE-----', ''].join('\n'),
    key: String(privateKey.export({ type: 'pkcs8', format: 'pem' })),
  }
}

function der(tag: number, ...parts: readonly Uint8Array[]): Buffer {
  const body = Buffer.concat(parts)
  const length = body.length < 128 ? [body.length] : body.length < 256 ? [0x81, body.length] : [0x82, body.length >> 8, body.length & 255]
  return Buffer.concat([Buffer.from([tag, ...length]), body])
}
