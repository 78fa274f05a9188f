import { expect, it } from 'vitest'
import { type HttpPublisherOptions, type HttpSourceOptions, httpPublisher, httpSource } from '../src/index.ts'

it.each([
  ['verify', { verify: undefined }],
  ['verify', { verify: 7 }],
  ['verify', { verify: 'whsec_?' }],
  ['verify', { verify: [] }],
  ['tolerance', { verify: 'whsec_AAAA', tolerance: -1 }],
  ['tolerance', { tolerance: 1000 }],
  ['unsignedAttributes', { verify: 'whsec_AAAA', unsignedAttributes: 'yes' }],
  ['unsignedAttributes', { unsignedAttributes: true }],
  ['unsignedAttributes', { verify: () => true, unsignedAttributes: true }],
  ['unsignedAttributes', { verify: 'whsec_AAAA', attributes: () => ({}), unsignedAttributes: true }],
  ['attributes', { attributes: 'id' }],
  ['respond', { respond: 'later' }],
  ['maxRequests', { maxRequests: 0 }],
  ['maxBodySize', { maxBodySize: 1.5 }],
  ['bodyTimeout', { bodyTimeout: 0 }],
  ['settleTimeout', { settleTimeout: 0 }],
  ['deadLetter', { deadLetter: 'dead' }],
  ['logger', { logger: {} }],
  ['path', { path: '/events' }],
])('a source refuses a wrong %s: %o', (name, wrong) => {
  expect(() => httpSource(wrong as HttpSourceOptions)).toThrow(
    expect.objectContaining({ code: 'ACKORD_INVALID_OPTION', message: expect.stringContaining(name) }),
  )
})

it.each([
  ['sign', { url: 'https://example.com', sign: undefined }],
  ['url', { url: 'example.com' }],
  ['url', { url: 'ftp://example.com' }],
  ['route', { url: 'https://example.com', route: () => 'https://example.com' }],
  ['route', { route: 'https://example.com' }],
  ['mode', { mode: 'text' }],
  ['headers', { headers: null }],
  ['headers', { headers: { 'ce-id': 'x' } }],
  ['headers', { headers: { 'Content-Type': 'x' } }],
  ['headers', { headers: { 'bad name': 'x' } }],
  ['headers', { headers: { 'x-a': 'line\r\nbreak' } }],
  ['headers', { headers: { 'x-a': 7 } }],
  ['sign', { sign: 'secret' }],
  ['concurrency', { concurrency: 0 }],
  ['timeout', { timeout: 0 }],
  ['statuses', { statuses: { 999: 'park' } }],
  ['statuses', { statuses: 'park' }],
  ['statuses[404]', { statuses: { 404: 'drop' } }],
  ['fetch', { fetch: {} }],
  ['retries', { retries: 3 }],
])('a publisher refuses a wrong %s: %o', (name, wrong) => {
  expect(() => httpPublisher(wrong as HttpPublisherOptions)).toThrow(
    expect.objectContaining({ code: 'ACKORD_INVALID_OPTION', message: expect.stringContaining(name) }),
  )
})

it('neither includes a possible secret in the error', () => {
  const wrong = [{ url: 'nohttp://me:hunter2@example.com/' }, { headers: { authorization: 'hunter2\n' } }, { sign: 'hunter2?' }]
  for (const options of wrong) {
    let error: unknown
    try {
      httpPublisher(options)
    } catch (thrown) {
      error = thrown
    }
    expect(error).toMatchObject({ code: 'ACKORD_INVALID_OPTION' })
    expect(String(error)).not.toContain('hunter2')
  }
})
