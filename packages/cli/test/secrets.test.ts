import { describe, expect, it } from 'vitest'
import { Secrets } from '../src/secrets.ts'

function masked(url: string, text: string): string {
  const secrets = new Secrets()
  secrets.addUrl(url)
  return secrets.mask(text)
}

describe('what is masked', () => {
  it.each([
    ['postgres://user:s3cret@host/db', 'failed with s3cret', 'failed with ***'],
    ['postgres://user:p%40ss%3A1@host/db', 'p@ss:1 and p%40ss%3A1', '*** and ***'],
    ['postgres://user:p@ss:1@host/db', 'p@ss:1', '***'],
    ['postgres://host/db?user=a&password=s3cret&sslmode=require', 's3cret require', '*** require'],
    ['nats://t0ken@host', 't0ken', '***'],
    ['postgres://user:s3#cret@host/db', 'no URL: s3#cret', 'no URL: ***'],
  ])('of %s', (url, text, expected) => {
    expect(masked(url, text)).toBe(expected)
  })

  it('includes what others wrote into a URL', () => {
    expect(masked('sqlite:a.db', 'connect amqp://other:w0rd@host:1 failed')).toBe('connect amqp://***@host:1 failed')
  })

  it('leaves names of users, hosts and databases alone', () => {
    expect(masked('postgres://root@host/db', 'root at host, db')).toBe('root at host, db')
  })
})
