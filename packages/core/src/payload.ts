// Codecs: what happens to the data of a message between its marshaler and the broker.
export { decodePayload, encodePayload } from './payload/payload-functions.ts'
export type { CodecCallOptions, CodecOptions, PayloadCodec } from './payload/codec.ts'
export type { PayloadOptions } from './payload/payload-functions.ts'

// Large data in an object store
export { claimCheck } from './payload/claim-check.ts'
export { collectObjects } from './payload/collect-objects.ts'
export { fileObjects } from './payload/file-objects.ts'
export { checkObjectKey, isObjectKey, ObjectTooLargeError } from './payload/object-store.ts'
export type { ClaimCheckOptions } from './payload/claim-check.ts'
export type { CollectObjectsOptions } from './payload/collect-objects.ts'
export type { GetObjectOptions, ListObjectsOptions, ObjectCallOptions, ObjectStore, StoredObject } from './payload/object-store.ts'

// Encryption
export { encrypted } from './payload/encrypted.ts'
export { staticKeys } from './payload/key-ring.ts'
export type { EncryptedOptions } from './payload/encrypted.ts'
export type { KeyAnswer, KeyRing, StaticKeysOptions } from './payload/key-ring.ts'
