import tseslint from 'typescript-eslint';

export default tseslint.config(
    { ignores: ['dist/**', 'src/generated/**', 'node_modules/**', 'scripts/**', 'test/scripts/**', '*.config.*'] },
    ...tseslint.configs.strictTypeChecked,
    {
        languageOptions: { parserOptions: { project: './tsconfig.json' } },
        rules: {
            'no-console': 'error',
            'no-restricted-syntax': [
                'error',
                { selector: 'ExportDefaultDeclaration', message: 'Export by name.' },
                { selector: "CallExpression[callee.name='Number']", message: 'Amounts and nonces are strings or bigint.' },
            ],
            '@typescript-eslint/restrict-template-expressions': ['error', { allowNumber: true, allowBoolean: true }],
        },
    },
);
