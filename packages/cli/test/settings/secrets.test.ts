import { describe, expect, it } from 'vitest'
import { Secrets } from '../../src/output/secrets.ts'
import { parseServiceUrl } from '../../src/settings/urls.ts'

function masked(url: string, text: string): string {
  const secrets = new Secrets()
  secrets.addUrl(url)
  return secrets.mask(text)
}

describe('masking', () => {
  it.each([
    ['postgres://user:s3cret@host/db', 'failed with s3cret', 'failed with ***'],
    ['postgres://user:p%40ss%3A1@host/db', 'p@ss:1 and p%40ss%3A1', '*** and ***'],
    ['postgres://user:p@ss:1@host/db', 'p@ss:1', '***'],
    ['postgres://host/db?user=a&password=s3cret&sslmode=require', 's3cret require', '*** require'],
    ['nats://t0ken@host', 't0ken', '***'],
    ['postgres://user:s3#cret@host/db', 'no URL: s3#cret', 'no URL: ***'],
    ['postgres://user:s3cr/et@host/db', "unknown 'postgres://user:s3cr/et@host/db'", "unknown 'postgres://user:***@host/db'"],
    ['postgres://user:s3@cr/et@host/db', 'postgres://user:s3@cr/et@host/db', 'postgres://user:***@host/db'],
    ['postgres://user:s3cret@host/db@home?options=a@b', 'failed with s3cret', 'failed with ***'],
    ['postgres://host/db?password=s3+cr%2fet', '?password=s3+cr%2fet, s3 cr/et', '?password=***, ***'],
    ['postgres://host/db?password=s3?cret&sslmode=a', 's3?cret', '***'],
    ['--stor=postgres://user:s3cr/et@host/db', '--stor=postgres://user:s3cr/et@host/db', '--stor=postgres://user:***@host/db'],
    ['--to=nats://t0/ken@host', 't0/ken', '***'],
    ['amqp://user:a.b-c+(d)%5Be%5D%5C%24@host', 'a.b-c+(d)[e]\\$, not aXb', '***, not aXb'],
    ['postgres://postgres:postgres@host/db', 'postgres://host/db, password postgres', 'postgres://host/db, password ***'],
    ['postgres://user:e@host/db', 'The password e is wrong.', 'The password *** is wrong.'],
    ['amqp://guest:guest@host', 'amqp://guest:guest@host: guest', 'amqp://guest:***@host: ***'],
    ['redis://:s3cret@host', 'redis://:s3cret@host', 'redis://:***@host'],
    ['nats://t0/ken@host', 'nats://t0/ken@host', 'nats://***@host'],
    ['nats://app:s3cret@one:4222,two:4222', 'nats://app:s3cret@one:4222,two:4222', 'nats://app:***@one:4222,two:4222'],
    ['sqlite:a.db', 'see https://t0ken@host and https://t0ken:x@host', 'see https://***@host and https://***@host'],
    ['sqlite:a.db', '9postgres://app:s3cret@host', '9postgres://***@host'],
  ])('of %s', (url, text, expected) => {
    expect(masked(url, text)).toBe(expected)
  })

  it('includes URLs in texts of others', () => {
    expect(masked('sqlite:a.db', 'connect amqp://other:w0rd@host:1 failed')).toBe('connect amqp://other:***@host:1 failed')
  })

  it.each([
    ['abc', 'abcdef'],
    ['abcdef', 'abc'],
  ])('covers the whole of a password that begins with another: %s, %s', (first, second) => {
    const secrets = new Secrets()
    for (const password of [first, second]) secrets.addUrl(`amqp://user:${password}@host`)
    expect(secrets.mask('abcdef abc')).toBe('*** ***')
  })

  it('does not reveal a short password by gaps in other words', () => {
    expect(masked('redis://:p@ss#word@host', 'Expected a URL.')).toBe('Expected a URL.')
  })

  it('does not change names of users, hosts and databases', () => {
    expect(masked('postgres://root@host/db', 'root at host, db')).toBe('root at host, db')
  })
})

describe('the address of a server, as it is shown', () => {
  it.each([
    ['postgres://app:s3cret@host:5432/db?sslmode=require&password=other', 'postgres://app:***@host:5432/db'],
    ['postgres://app@host/db', 'postgres://app@host/db'],
    ['postgres://host/db', 'postgres://host/db'],
    ['postgres://@host/db', 'postgres://host/db'],
    ['postgres://app:@host/db', 'postgres://app@host/db'],
    ['postgres://a%40b%2Fc:p%40ss%3A1@host/db', 'postgres://a%40b%2Fc:***@host/db'],
    ['mysql://app:s3:cr:et@host/db', 'mysql://app:***@host/db'],
    ['redis://:s3cret@host:6379/0', 'redis://:***@host:6379/0'],
    ['redis+cluster://app:s3cret@one:6379,two:6379', 'redis+cluster://app:***@one:6379,two:6379'],
    ['redis+cluster://app:s3cret@one:6379,app:s3cret@two:6379', 'redis+cluster://app:***@two:6379'],
    ['nats://t0ken@host', 'nats://***@host'],
    ['nats://app:s3cret@one,two', 'nats://app:***@one,two'],
    ['kafkas://app:s3cret@one:9092,two:9092', 'kafkas://app:***@one:9092,two:9092'],
    ['amqp://guest:guest@host/vhost', 'amqp://guest:***@host/vhost'],
    ['sqlite:orders.db', 'sqlite:orders.db'],
  ])('of %s', (url, expected) => {
    const { address } = parseServiceUrl('--store', url, [])
    expect(address).toBe(expected)
    // Masking again changes nothing, so that lines and errors show the same.
    expect(masked(url, address)).toBe(expected)
  })
})
