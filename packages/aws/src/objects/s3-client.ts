import type { AwsRequestOptions } from '../client.ts'

/** An object that S3 could not delete. */
export interface S3DeletionFailure {
  readonly Key?: string | undefined
  readonly Code?: string | undefined
  readonly Message?: string | undefined
}

/** The part that is used of an `S3` of `@aws-sdk/client-s3`. It is passed in. */
export interface S3ObjectsClient {
  putObject(
    input: { Bucket: string; Key: string; Body: Uint8Array; ContentLength: number; ContentType: string; ChecksumSHA256: string },
    options?: AwsRequestOptions,
  ): Promise<unknown>
  getObject(
    input: { Bucket: string; Key: string },
    options?: AwsRequestOptions,
  ): Promise<{ readonly Body?: unknown; readonly ContentLength?: number | undefined }>
  deleteObjects(
    input: { Bucket: string; Delete: { Objects: { Key: string }[]; Quiet: boolean } },
    options?: AwsRequestOptions,
  ): Promise<{ readonly Errors?: readonly S3DeletionFailure[] | undefined }>
  listObjectsV2(
    input: { Bucket: string; Prefix?: string; ContinuationToken?: string },
    options?: AwsRequestOptions,
  ): Promise<{
    readonly Contents?: readonly { readonly Key?: string | undefined; readonly LastModified?: Date | undefined }[] | undefined
    readonly NextContinuationToken?: string | undefined
  }>
}
