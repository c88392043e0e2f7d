import tseslint from 'typescript-eslint';

export default tseslint.config(
    { ignores: ['dist/**', 'deploy/**', 'node_modules/**', '*.config.*', 'build.mjs'] },
    ...tseslint.configs.strictTypeChecked,
    {
        languageOptions: { parserOptions: { project: './tsconfig.json' } },
        rules: {
            'no-console': 'error',
            'no-restricted-syntax': [
                'error',
                { selector: "CallExpression[callee.name='Number']", message: 'Amounts and nonces are strings or bigint.' },
            ],
            // A row has the type that its query gives it.
            '@typescript-eslint/no-unnecessary-type-parameters': 'off',
            '@typescript-eslint/restrict-template-expressions': ['error', { allowNumber: true }],
        },
    },
);
