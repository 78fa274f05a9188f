// @ts-check

/**
 * @typedef {object} Address
 * @property {string} host
 * @property {number} port
 * @property {boolean} secure TLS from the first byte, by the scheme
 * @property {string | undefined} user
 * @property {string | undefined} password
 * @property {string} path without the leading slash
 * @property {URLSearchParams} parameters
 */

const secureSchemes = new Set(['rediss:', 'amqps:', 'kafka+ssl:'])

/**
 * Also accepts `host:port`, the notation of Kafka and NATS users.
 *
 * @param {string} text
 * @param {number} defaultPort
 * @returns {Address}
 */
export function parseAddress(text, defaultPort) {
  const withScheme = /^[a-z][a-z0-9+.-]*:\/\//i.test(text) ? text : `tcp://${text}`
  if (!URL.canParse(withScheme)) throw new Error('not a URL')
  const url = new URL(withScheme)
  if (url.hostname === '') throw new Error('a URL without a host')
  return {
    host: url.hostname.replace(/^\[|\]$/g, ''),
    port: url.port === '' ? defaultPort : Number(url.port),
    secure: secureSchemes.has(url.protocol),
    user: url.username === '' ? undefined : decodeURIComponent(url.username),
    password: url.password === '' ? undefined : decodeURIComponent(url.password),
    path: decodeURIComponent(url.pathname.replace(/^\//, '')),
    parameters: url.searchParams,
  }
}

/**
 * For messages: names the location, and never contains a password.
 *
 * @param {string} urls one URL, or several separated by commas
 * @param {number} defaultPort
 */
export function describeAddress(urls, defaultPort) {
  return splitUrls(urls)
    .map((url) => {
      const { host, port } = parseAddress(url, defaultPort)
      return `${host.includes(':') ? `[${host}]` : host}:${port}`
    })
    .join(',')
}

/** @param {string} urls */
export function splitUrls(urls) {
  return urls
    .split(',')
    .map((url) => url.trim())
    .filter((url) => url !== '')
}
